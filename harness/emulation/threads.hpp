// The threads of a block take turns on the one thread of this program, each from one barrier to the next.
//
// Blocks run one after the other. Threads run in the order of their numbers, or in the opposite order. All threads have
// to arrive at a barrier, also those that would end before; all lanes of a mask that exist have to arrive at an exchange.
#pragma once
#define EMULATED_RUNTIME
#include <csetjmp>
#include <sys/mman.h>
#include <ucontext.h>
#include "device.hpp"

uint3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {
const unsigned MOST_THREADS = 1024;
const std::size_t STACK = 1 << 17, GUARD = 1 << 14, MOST_SHARED = 227 << 10;
alignas(128) char dynamic_shared[MOST_SHARED];

struct Meeting {
    const char* what;
    unsigned expected, arrived;
    // Counts the times that all have met: what was done before differs from what is done after.
    unsigned met;
};
// The lanes of one mask.
struct Group {
    Meeting meeting;
    unsigned mask;
    Word words[2][32];
    Group* next;
};
struct Warp {
    unsigned lanes;
    // How often its lanes have met at a barrier of the warp.
    unsigned met;
    Group* groups;
};
struct Thread {
    char* stack;
    jmp_buf place;
    bool entered, over;
    Meeting* meeting;
    unsigned met;
    void* where;
};
static Thread threads[MOST_THREADS];
static Warp warps[MOST_THREADS / 32];
static Meeting block = {"__syncthreads", 0, 0, 0};
static Thread* running;
static jmp_buf between_turns;
static void (*kernel)();
// A lane that is in no mask of its own, or lanes that meet for different exchanges: set where checks are made.
static void (*diverged)(const char* what, const Meeting* other, void* where) = nullptr;
// Whether what overflows a stack ends the program.
static bool guarded = false;

inline unsigned number() { return threadIdx.x + threadIdx.y * blockDim.x; }

// Stacks of all threads lie in one piece, of which what is used takes memory.
static char* stack_of(std::size_t number) {
    static void* const room = mmap(nullptr, MOST_THREADS * (STACK + GUARD), PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED) __builtin_trap();
    char* const begin = static_cast<char*>(room) + number * (STACK + GUARD);
    if (guarded) mprotect(begin, GUARD, PROT_NONE);
    return begin + GUARD;
}
// A thread keeps its stack from block to block, and is started on it once. After that it is switched to by jumps:
// swapcontext would make a system call at each switch.
[[gnu::noinline]] static void end_turn() {
    if (!_setjmp(running->place)) _longjmp(between_turns, 1);
}
static void run_kernels() {
    for (;; end_turn()) {
        kernel();
        running->over = true;
    }
}
[[gnu::noinline]] static void give_turn(Thread& thread) {
    running = &thread;
    if (_setjmp(between_turns)) return;
    if (thread.entered) _longjmp(thread.place, 1);
    thread.entered = true;
    if (!thread.stack) thread.stack = stack_of(&thread - threads);
    ucontext_t beginning;
    getcontext(&beginning);
    beginning.uc_stack.ss_sp = thread.stack;
    beginning.uc_stack.ss_size = STACK;
    makecontext(&beginning, run_kernels, 0);
    setcontext(&beginning);
}

// The last to arrive goes on, and is told so; the others end their turn.
static bool meet(Meeting& meeting, void* where) {
    running->where = where;
    if (++meeting.arrived == meeting.expected) {
        meeting.arrived = 0;
        ++meeting.met;
        return true;
    }
    running->meeting = &meeting;
    running->met = meeting.met;
    end_turn();
    running->meeting = nullptr;
    return false;
}
static Group& group_of(unsigned mask, const char* what, void* where) {
    Warp& warp = warps[number() / 32];
    if (diverged && !(mask >> lane() & 1)) diverged(what, nullptr, where);
    mask &= warp.lanes;
    Group** link = &warp.groups;
    while (*link && (*link)->mask != mask) link = &(*link)->next;
    if (!*link) *link = new Group{{what, unsigned(__builtin_popcount(mask)), 0, 0}, mask, {}, nullptr};
    Meeting& meeting = (*link)->meeting;
    if (diverged && meeting.arrived && std::strcmp(meeting.what, what)) diverged(what, &meeting, where);
    meeting.what = what;
    return **link;
}
[[gnu::noinline]] void barrier() { meet(block, __builtin_return_address(0)); }
[[gnu::noinline]] void warp_barrier(unsigned mask) {
    void* where = __builtin_return_address(0);
    if (meet(group_of(mask, "__syncwarp", where).meeting, where)) ++warps[number() / 32].met;
}
// Nobody writes there again before all have come to the next exchange.
[[gnu::noinline]] const Word* exchange(const char* what, unsigned mask, Word value) {
    void* where = __builtin_return_address(0);
    Group& group = group_of(mask, what, where);
    Word* words = group.words[group.meeting.met % 2];
    words[lane()] = value;
    meet(group.meeting, where);
    return words;
}
unsigned existing_lanes() { return warps[number() / 32].lanes; }
long long clock() {
    static long long cycles = 0;
    return cycles += 100;
}

// Give every thread that can go on its turn until all have ended; false if some wait for what never arrives.
inline bool take_turns(unsigned count, bool upwards) {
    for (unsigned left = count; left > 0;) {
        bool moved = false;
        for (unsigned k = 0; k < count; ++k) {
            const unsigned number = upwards ? k : count - 1 - k;
            Thread& thread = threads[number];
            if (thread.over || (thread.meeting && thread.meeting->met == thread.met)) continue;
            moved = true;
            threadIdx = {number % blockDim.x, number / blockDim.x, 0};
            give_turn(thread);
            left -= thread.over;
        }
        if (!moved) return false;
    }
    return true;
}
inline void begin_block(unsigned count) {
    block.expected = count;
    block.arrived = 0;
    // A block is separated from the one before.
    ++block.met;
    for (unsigned k = 0; k < count; ++k) {
        threads[k].meeting = nullptr;
        threads[k].over = false;
    }
    for (unsigned k = 0; 32 * k < count; ++k) {
        warps[k].lanes = count - 32 * k < 32 ? (1u << (count - 32 * k)) - 1 : ~0u;
        for (Group* group = warps[k].groups; group; group = group->next) group->meeting.arrived = 0;
    }
}
// Run a kernel by all threads of a grid. `began` is called at the beginning of each block.
inline bool launch(dim3 grid, dim3 threads_of_block, bool upwards, void (*of_thread)(), void (*began)() = [] {}) {
    gridDim = grid;
    blockDim = threads_of_block;
    kernel = of_thread;
    for (unsigned y = 0; y < grid.y; ++y)
        for (unsigned x = 0; x < grid.x; ++x) {
            const unsigned count = blockDim.x * blockDim.y;
            blockIdx = {x, y, 0};
            begin_block(count);
            began();
            if (take_turns(count, upwards)) continue;
            // Those that wait are in the middle of the kernel.
            for (Thread& thread : threads) thread.entered = false;
            return false;
        }
    return true;
}
}  // namespace emulated
