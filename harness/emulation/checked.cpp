// The program that runs emulated kernels: it reads arrays and launches, checks every access to memory, and writes what
// the arrays hold afterwards, or the first fault.
//
// Kernels are compiled with -fsanitize=thread, so that each access calls one of the functions `__tsan_...`, which are
// defined here. They look up what the address is: an array, shared memory, a variable of the kernels or the thread's
// own stack; anything else is out of bounds. What was last done to each four bytes of arrays and of shared memory is
// remembered: two accesses of different threads, at least one a write and not both atomic, are a race if no barrier
// separates them.
#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <set>
#include <string>
#include <sys/time.h>
#include <unistd.h>
#include <vector>
#include "threads.hpp"
#include "kernels.hpp"

extern "C" {
extern thread_local char emulated_first_shared[], emulated_last_shared[];
extern char emulated_first_zeros[], emulated_last_zeros[], emulated_first_values[], emulated_last_values[];
extern char __executable_start[], __data_start[];
}

namespace emulated {
typedef std::uintptr_t Address;
enum Kind : unsigned char { READ, WRITE, ATOMIC };
const char* const VERBS[] = {"reads", "writes", "changes atomically"};

// One access to four bytes. Accesses of one launch only are compared. `other` is a thread of the same warp that did the
// same in the same step, or the same thread.
struct Access {
    unsigned launch, block, met, met_of_warp, pc;
    unsigned short thread, other;
    unsigned char bytes;
    Kind kind;
};
// The last writes and the last reads; the second is that of another warp or block.
struct Cell {
    Access writes[2], reads[2];
};
struct Array {
    std::string name;
    char* begin;
    Address bytes, row;
    bool returned;
    // Whether the launch has it as an argument.
    bool given;
    std::vector<Cell> cells;
};
struct Launch {
    unsigned kernel;
    dim3 grid, threads;
    Address shared;
    std::vector<Argument> arguments;
};

// Arrays lie this far apart, in the middle of what is nobody's.
const Address FIRST_PLACE = Address(1) << 44, PLACE = Address(1) << 36, MARGIN = Address(1) << 35;
const Address GRANULE = 4;
// Bytes on either side of an array that tell of what no check has seen.
const Address GUARDED = 4096;
const char GUARD_BYTE = 0x5a;
static std::vector<Array> arrays;
static std::vector<Launch> launches;
static const Launch* launched;
static unsigned launch_number = 0;
static std::vector<Cell> of_static, of_dynamic;
static Address static_begin, static_end;
// Of each byte of what kernels declare as shared, the number of the variable; 0 between them.
static std::vector<unsigned short> variable_of;
static unsigned blocks_begun = 0;
static std::string printed;
static unsigned last_pc;
// Who has ordered accesses before those that follow: by a fence and an atomic operation, and another on the same address.
// Of other blocks that is known by their numbers, of the same block by those of threads.
struct Before {
    std::set<unsigned> blocks, threads;
    void add(const Before& other) {
        blocks.insert(other.blocks.begin(), other.blocks.end());
        threads.insert(other.threads.begin(), other.threads.end());
    }
};
static std::map<Address, Before> released;
static std::set<unsigned> acquired_blocks;
static std::set<unsigned> acquired_threads[MOST_THREADS];
static bool fenced, fenced_threads[MOST_THREADS];

inline unsigned block_number() { return blockIdx.x + blockIdx.y * gridDim.x; }

static void write_all(const void* from, std::size_t bytes) {
    for (const char* at = static_cast<const char*>(from); bytes;) {
        const ssize_t written = write(1, at, bytes);
        if (written <= 0) _exit(3);
        at += written;
        bytes -= written;
    }
}
// One line of fields, and the end. {0} and {1} in the text stand for the lines of the places.
[[noreturn]] static void fail(const char* kind, int thread, Address place, Address other, const char* format, ...) {
    char text[600], line[1000];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    const char* name = launched ? kernels[launched->kernel].name : "";
    const int length = snprintf(line, sizeof(line), "fault\t%s\t%s\t%d\t%u\t%lx\t%lx\t%s\n", kind, name, thread,
        block_number(), place, other, text);
    write_all(line, std::min<std::size_t>(length, sizeof(line) - 1));
    _exit(0);
}
static std::string named(unsigned thread) {
    std::string name = "thread ";
    if (blockDim.y > 1) {
        name += "(" + std::to_string(thread % blockDim.x) + ", " + std::to_string(thread / blockDim.x) + ")";
    } else {
        name += std::to_string(thread);
    }
    return name;
}
static std::string named(unsigned thread, unsigned block) {
    return named(thread) + " of block " +
        (gridDim.y > 1 ? "(" + std::to_string(block % gridDim.x) + ", " + std::to_string(block / gridDim.x) + ")"
                       : std::to_string(block));
}

// An address in words, such as positions[12] or {shared:64}, which stands for a variable of a kernel.
static std::string described(const Array* array, Address address) {
    if (array) {
        const long offset = address - Address(array->begin), row = array->row;
        return array->name + "[" + std::to_string(offset >= 0 ? offset / row : -((row - 1 - offset) / row)) + "]";
    }
    const Address dynamic = address - Address(dynamic_shared);
    if (dynamic < MOST_SHARED) return "byte " + std::to_string(dynamic) + " of dynamic shared memory";
    return "{shared:" + std::to_string(address - static_begin) + "}";
}

inline bool are_ordered(const Access& before, const Access& now) {
    if (before.block != now.block) return acquired_blocks.count(before.block);
    if (before.met != now.met) return true;
    if (before.thread / 32 == now.thread / 32 && before.met_of_warp != now.met_of_warp) return true;
    const std::set<unsigned>& earlier = acquired_threads[now.thread];
    return (before.thread == now.thread || earlier.count(before.thread)) &&
        (before.other == now.thread || earlier.count(before.other));
}
[[gnu::noinline]] static void report_race(const Access& before, const Access& now, const std::string& what) {
    const unsigned other = before.thread == now.thread && before.block == now.block ? before.other : before.thread;
    const bool blocks = before.block != now.block;
    fail("race", now.thread, now.pc, before.pc, "%s %s %s in line {0}, which %s %s in line {1} without %s between them",
        named(now.thread, now.block).c_str(), VERBS[now.kind], what.c_str(),
        (blocks ? named(other, before.block) : named(other)).c_str(), VERBS[before.kind],
        blocks ? "an order" : "a barrier");
}
inline bool is_same_step(const Access& a, const Access& b) {
    return a.launch == b.launch && a.block == b.block && a.met == b.met && a.thread / 32 == b.thread / 32 &&
        a.met_of_warp == b.met_of_warp;
}
inline void remember(Access (&last)[2], Access now) {
    if (is_same_step(last[0], now)) {
        if (last[0].thread != now.thread) now.other = last[0].thread;
        else now.other = last[0].other;
        if (last[0].bytes & ~now.bytes) now.bytes |= last[0].bytes;
        if (last[0].kind == WRITE) now.kind = WRITE;
        last[0] = now;
        return;
    }
    if (last[0].thread / 32 != now.thread / 32 || last[0].block != now.block) last[1] = last[0];
    last[0] = now;
}
inline void check_against(const Access (&last)[2], const Access& now, const Array* array, Address address) {
    for (const Access& before : last) {
        if (before.launch != now.launch || !(before.bytes & now.bytes)) continue;
        if (before.kind == ATOMIC && now.kind == ATOMIC) continue;
        if (!are_ordered(before, now)) report_race(before, now, described(array, address));
    }
}
inline void check_races(std::vector<Cell>& cells, Address offset, unsigned bytes, Access now, const Array* array,
    Address address) {
    for (Address end = offset + bytes, at = offset; at < end;) {
        const Address next = std::min(end, (at / GRANULE + 1) * GRANULE);
        now.bytes = ((1u << (next - at)) - 1) << at % GRANULE;
        Cell& cell = cells[at / GRANULE];
        check_against(cell.writes, now, array, address);
        if (now.kind == READ) {
            remember(cell.reads, now);
        } else {
            check_against(cell.reads, now, array, address);
            remember(cell.writes, now);
        }
        at = next;
    }
}
[[noreturn, gnu::noinline]] static void out_of_bounds(Address address, unsigned bytes, Kind kind, Address pc,
    const Array* array) {
    const std::string who = named(number(), block_number());
    const int thread = number();
    if (array && array->bytes / array->row * array->row == array->bytes)
        fail("bounds", thread, pc, 0, "%s %s %s in line {0}; %s has %lu row%s", who.c_str(), VERBS[kind],
            described(array, address).c_str(), array->name.c_str(), array->bytes / array->row,
            array->bytes == array->row ? "" : "s");
    if (address - Address(dynamic_shared) < MOST_SHARED)
        fail("bounds", thread, pc, 0, "%s %s %s in line {0}; the launch has %lu bytes of it", who.c_str(),
            VERBS[kind], described(nullptr, address).c_str(), launched->shared);
    if (const Address offset = address - static_begin; offset < static_end - static_begin)
        fail("bounds", thread, pc, 0, "%s %s %s in line {0}; {size:%lu}", who.c_str(), VERBS[kind],
            described(nullptr, address).c_str(), offset);
    fail("bounds", thread, pc, 0, "%s %s %u bytes in line {0} that are in no array, no shared memory and not its own",
        who.c_str(), VERBS[kind], bytes);
}
inline bool is_within(Address address, unsigned bytes, Address begin, Address end) {
    return address >= begin && address + bytes <= end && address + bytes >= address;
}
// Variables of the kernels, and constants, which may be read.
static bool is_variable(Address address, unsigned bytes, Kind kind) {
    return is_within(address, bytes, Address(emulated_first_zeros) + 64, Address(emulated_last_zeros)) ||
        is_within(address, bytes, Address(emulated_first_values) + 64, Address(emulated_last_values)) ||
        (kind == READ && is_within(address, bytes, Address(__executable_start), Address(__data_start)));
}
inline void seen(const volatile void* to, unsigned bytes, Kind kind, void* where) {
    const Address address = Address(to), pc = Address(where);
    if (running != threads + number()) fail("bounds", -1, pc, 0, "a thread changes its number before line {0}");
    if (is_within(address, bytes, Address(running->stack), Address(running->stack) + STACK)) return;
    last_pc = pc;
    Access now = {launch_number, block_number(), block.met, warps[number() / 32].met, unsigned(pc),
        static_cast<unsigned short>(number()), static_cast<unsigned short>(number()), 0, kind};
    if (const Address place = (address - FIRST_PLACE) / PLACE; address >= FIRST_PLACE && place < arrays.size()) {
        Array& array = arrays[place];
        if (!array.given)
            fail("bounds", number(), pc, 0, "%s %s %s in line {0}, which is no argument of this launch",
                named(number(), block_number()).c_str(), VERBS[kind], described(&array, address).c_str());
        if (!is_within(address, bytes, Address(array.begin), Address(array.begin) + array.bytes))
            out_of_bounds(address, bytes, kind, pc, &array);
        check_races(array.cells, address - Address(array.begin), bytes, now, &array, address);
    } else if (is_within(address, bytes, static_begin, static_end)) {
        const unsigned short variable = variable_of[address - static_begin];
        if (!variable || variable_of[address - static_begin + bytes - 1] != variable)
            out_of_bounds(address, bytes, kind, pc, nullptr);
        // Each block has shared memory of its own.
        now.launch = blocks_begun;
        check_races(of_static, address - static_begin, bytes, now, nullptr, address);
    } else if (is_within(address, bytes, Address(dynamic_shared), Address(dynamic_shared) + launched->shared)) {
        now.launch = blocks_begun;
        check_races(of_dynamic, address - Address(dynamic_shared), bytes, now, nullptr, address);
    } else if (!is_variable(address, bytes, kind)) {
        out_of_bounds(address, bytes, kind, pc, nullptr);
    }
}

[[gnu::noinline]] void atomic(const volatile void* address, int bytes) {
    if (Address(address) % bytes)
        fail("bounds", number(), Address(__builtin_return_address(0)), 0,
            "%s changes atomically in line {0} what is not aligned to its %d bytes",
            named(number(), block_number()).c_str(), bytes);
    seen(address, bytes, ATOMIC, __builtin_return_address(0));
    const unsigned thread = number();
    const auto earlier = released.find(Address(address));
    if (earlier != released.end()) {
        acquired_blocks.insert(earlier->second.blocks.begin(), earlier->second.blocks.end());
        acquired_threads[thread].insert(earlier->second.threads.begin(), earlier->second.threads.end());
    }
    if (!fenced) return;
    Before before_next = {acquired_blocks, {}};
    before_next.blocks.insert(block_number());
    if (fenced_threads[thread]) {
        before_next.threads = acquired_threads[thread];
        before_next.threads.insert(thread);
    }
    released[Address(address)].add(before_next);
}
void fence() { fenced = fenced_threads[number()] = true; }
int print(const char* format, ...) {
    char text[1024];
    // Unlike the library's, CUDA's writes to no memory.
    for (const char* at = format; (at = std::strchr(at, '%')); at += *at != 0) {
        at += 1 + std::strspn(at + 1, " #+-.*'0123456789$hlLjztq");
        if (*at == 'n')
            fail("crash", number(), Address(__builtin_return_address(0)), 0, "%s prints by %%n in line {0}, which CUDA C does not have",
                named(number(), block_number()).c_str());
    }
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(text, sizeof(text), format, values);
    va_end(values);
    if (length > 0 && printed.size() < 1 << 16) printed.append(text, std::min<std::size_t>(length, sizeof(text) - 1));
    return length;
}

// Why no thread can go on: the first that waits, and the first that does not arrive.
[[noreturn]] static void report_stuck(unsigned count) {
    unsigned waiting = count, missing = count;
    for (unsigned k = count; k-- > 0;)
        if (!threads[k].over && (waiting == count || threads[k].meeting != &block || threads[waiting].meeting == &block))
            waiting = k;
    const Meeting* meeting = threads[waiting].meeting;
    const bool of_warp = meeting != &block;
    for (unsigned k = count; k-- > 0;)
        if ((threads[k].over || threads[k].meeting != meeting) && (!of_warp || k / 32 == waiting / 32)) missing = k;
    const Thread& absent = threads[missing];
    const std::string why = absent.over ? "which has ended" : std::string("which waits at ") + absent.meeting->what +
        " in line {1}";
    fail(of_warp ? "divergence" : "barrier", waiting, Address(threads[waiting].where),
        absent.over ? 0 : Address(absent.where), "%s waits at %s in line {0} for %s, %s",
        named(waiting, block_number()).c_str(), meeting->what, named(missing).c_str(), why.c_str());
}
static void report_divergence(const char* what, const Meeting* other, void* where) {
    const std::string who = named(number(), block_number());
    if (!other)
        fail("divergence", number(), Address(where), 0, "%s calls %s in line {0} with a mask that lacks its own lane",
            who.c_str(), what);
    fail("divergence", number(), Address(where), 0, "%s calls %s in line {0} while other lanes of its mask wait at %s",
        who.c_str(), what, other->what);
}

// Signals: the end of the time, and what a processor refuses.
static void interrupted(int signal, siginfo_t* info, void* context) {
    const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    const Address pc = registers.gregs[REG_RIP];
#else
    const Address pc = registers.pc;
#endif
    if (!launched) _exit(4);
    const int thread = running ? int(number()) : 0;
    const std::string who = named(thread, block_number());
    if (signal == SIGALRM)
        fail("time", thread, pc, last_pc, "the launch did not end in time; %s was in line {0}", who.c_str());
    const Address address = Address(info->si_addr), stack = running ? Address(running->stack) : 0;
    if (signal == SIGSEGV && address < stack && address + GUARD >= stack)
        fail("memory", thread, pc, last_pc, "%s uses more than %lu KiB of local memory in line {0}", who.c_str(),
            STACK >> 10);
    if (signal == SIGFPE)
        fail("crash", thread, pc, last_pc, "%s divides an integer by zero in line {0}", who.c_str());
    fail("crash", thread, pc, last_pc, "%s crashes in line {0}", who.c_str());
}
static void take_signals(unsigned milliseconds) {
    static char stack[1 << 15];
    const stack_t other = {stack, 0, sizeof(stack)};
    sigaltstack(&other, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = interrupted;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    for (const int signal : {SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigaction(signal, &action, nullptr);
    const itimerval timer = {{0, 0}, {milliseconds / 1000, milliseconds % 1000 * 1000}};
    setitimer(ITIMER_REAL, &timer, nullptr);
}

// The input: numbers and texts as Python packs them.
static const char* input;
template <class T> T taken() {
    T value;
    std::memcpy(&value, input, sizeof(T));
    input += sizeof(T);
    return value;
}
static std::vector<char> read_input() {
    std::vector<char> content;
    char part[1 << 16];
    for (ssize_t count; (count = ::read(0, part, sizeof(part))) > 0;) content.insert(content.end(), part, part + count);
    return content;
}
static Array taken_array(Address number) {
    Array array;
    array.name.resize(taken<unsigned>());
    std::memcpy(array.name.data(), input, array.name.size());
    input += array.name.size();
    array.bytes = taken<Address>();
    array.row = taken<Address>();
    array.returned = taken<unsigned>();
    char* const place = reinterpret_cast<char*>(FIRST_PLACE + number * PLACE + MARGIN);
    void* const room = mmap(place - GUARDED, array.bytes + 2 * GUARDED, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (room != place - GUARDED) fail("memory", -1, 0, 0, "there is no memory for the array %s", array.name.c_str());
    array.begin = place;
    std::memset(array.begin - GUARDED, GUARD_BYTE, GUARDED);
    std::memset(array.begin + array.bytes, GUARD_BYTE, GUARDED);
    std::memcpy(array.begin, input, array.bytes);
    input += array.bytes;
    array.cells.resize((array.bytes + GRANULE - 1) / GRANULE);
    return array;
}
static Launch taken_launch() {
    Launch launch;
    launch.kernel = taken<unsigned>();
    for (dim3* const size : {&launch.grid, &launch.threads}) {
        size->x = taken<unsigned>();
        size->y = taken<unsigned>();
        size->z = 1;
    }
    launch.shared = taken<Address>();
    launch.arguments.resize(taken<unsigned>());
    for (Argument& argument : launch.arguments) {
        argument.kind = static_cast<char>(taken<unsigned>());
        if (std::strchr("rfd", argument.kind)) argument.real = taken<double>();
        else argument.integer = taken<long long>();
        if (argument.kind == 'p') argument.pointer = arrays[argument.integer].begin;
    }
    return launch;
}

static const char* in_words(char kind) {
    switch (kind) {
        case 'p': return "an array";
        case 'n': return "an int";
        case 'i': return "an integer";
        case 'f': return "a float";
        case 'd': return "a double";
        case 'r': return "a real number";
        default: return "neither an array nor a number";
    }
}
static bool suits(char given, char parameter) {
    if (given == 'i') return std::strchr("nifd", parameter);
    return given == parameter || (given == 'r' && std::strchr("fd", parameter));
}
static void check_arguments(const Launch& launch) {
    const Kernel& kernel = kernels[launch.kernel];
    const std::size_t expected = std::strlen(kernel.parameters), given = launch.arguments.size();
    if (given != expected)
        fail("compile", -1, 0, 0, "%s has %lu parameters, and the launch gives %lu", kernel.name, expected, given);
    for (std::size_t k = 0; k < given; ++k) {
        const char kind = launch.arguments[k].kind, parameter = kernel.parameters[k];
        if (!suits(kind, parameter))
            fail("compile", -1, 0, 0, "parameter %lu of %s is %s, and the launch gives %s", k + 1, kernel.name,
                in_words(parameter), in_words(kind));
    }
}
static void begin_of_block() {
    acquired_blocks.clear();
    for (auto& threads_before : acquired_threads) threads_before.clear();
    // The threads of the block before are those of another block now.
    for (auto& [address, before] : released) before.threads.clear();
    fenced = false;
    std::fill(std::begin(fenced_threads), std::end(fenced_threads), false);
    ++blocks_begun;
    // Shared memory holds nothing at first: NaN as numbers.
    std::memset(reinterpret_cast<void*>(static_begin), 0xff, static_end - static_begin);
    std::memset(dynamic_shared, 0xff, launched->shared);
}
static void check_guards(const Array& array) {
    for (const char* begin : {array.begin - GUARDED, array.begin + array.bytes})
        if (std::any_of(begin, begin + GUARDED, [](char byte) { return byte != GUARD_BYTE; }))
            fail("bounds", -1, 0, 0, "the kernel writes %s the array %s", begin < array.begin ? "before" : "behind",
                array.name.c_str());
}
static void run(const Launch& launch, bool upwards) {
    launched = &launch;
    check_arguments(launch);
    for (Array& array : arrays) array.given = false;
    for (const Argument& argument : launch.arguments)
        if (argument.kind == 'p') arrays[argument.integer].given = true;
    ++launch_number;
    released.clear();
    last_pc = 0;
    const auto of_thread = [] { kernels[launched->kernel].call(launched->arguments.data()); };
    if (!emulated::launch(launch.grid, launch.threads, upwards, of_thread, begin_of_block))
        report_stuck(launch.threads.x * launch.threads.y);
    for (const Array& array : arrays) check_guards(array);
}
static int run_all() {
    const std::vector<char> content = read_input();
    input = content.data();
    const unsigned milliseconds = taken<unsigned>(), upwards = taken<unsigned>();
    const unsigned variable_count = taken<unsigned>(), array_count = taken<unsigned>(), launch_count = taken<unsigned>();
    static_begin = Address(emulated_first_shared) + 128;
    static_end = Address(emulated_last_shared);
    of_static.resize((static_end - static_begin + GRANULE - 1) / GRANULE);
    variable_of.resize(static_end - static_begin);
    for (unsigned k = 0; k < variable_count; ++k) {
        const unsigned begin = taken<unsigned>(), end = begin + taken<unsigned>();
        std::fill(variable_of.begin() + begin, variable_of.begin() + end, k + 1);
    }
    for (unsigned k = 0; k < array_count; ++k) arrays.push_back(taken_array(k));
    for (unsigned k = 0; k < launch_count; ++k) launches.push_back(taken_launch());
    of_dynamic.resize(MOST_SHARED / GRANULE);
    diverged = report_divergence;
    guarded = true;
    take_signals(milliseconds);
    timespec begin, end;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (const Launch& launch : launches) run(launch, upwards);
    clock_gettime(CLOCK_MONOTONIC, &end);
    char line[100];
    const double seconds = end.tv_sec - begin.tv_sec + 1e-9 * (end.tv_nsec - begin.tv_nsec);
    write_all(line, snprintf(line, sizeof(line), "ended\t%.9f\t%lu\n", seconds, printed.size()));
    write_all(printed.data(), printed.size());
    for (const Array& array : arrays)
        if (array.returned) write_all(array.begin, array.bytes);
    _exit(0);
}
}  // namespace emulated

int main() { return emulated::run_all(); }

using emulated::seen;
extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
#define WHERE __builtin_return_address(0)
#define EMULATED_ACCESS(bytes)                                                                                       \
    void __tsan_read##bytes(void* at) { seen(at, bytes, emulated::READ, WHERE); }                                    \
    void __tsan_write##bytes(void* at) { seen(at, bytes, emulated::WRITE, WHERE); }                                  \
    void __tsan_unaligned_read##bytes(void* at) { seen(at, bytes, emulated::READ, WHERE); }                          \
    void __tsan_unaligned_write##bytes(void* at) { seen(at, bytes, emulated::WRITE, WHERE); }                        \
    void __tsan_volatile_read##bytes(void* at) { seen(at, bytes, emulated::READ, WHERE); }                           \
    void __tsan_volatile_write##bytes(void* at) { seen(at, bytes, emulated::WRITE, WHERE); }
EMULATED_ACCESS(1)
EMULATED_ACCESS(2)
EMULATED_ACCESS(4)
EMULATED_ACCESS(8)
EMULATED_ACCESS(16)
void __tsan_read_range(void* at, std::size_t bytes) { seen(at, bytes, emulated::READ, WHERE); }
void __tsan_write_range(void* at, std::size_t bytes) { seen(at, bytes, emulated::WRITE, WHERE); }

// What a compiler makes of copies of structures calls these in place of the library's functions.
void* emulated_memcpy(void* to, const void* from, std::size_t bytes) {
    if (!bytes) return to;
    seen(from, bytes, emulated::READ, WHERE);
    seen(to, bytes, emulated::WRITE, WHERE);
    return memcpy(to, from, bytes);
}
void* emulated_memmove(void* to, const void* from, std::size_t bytes) {
    if (!bytes) return to;
    seen(from, bytes, emulated::READ, WHERE);
    seen(to, bytes, emulated::WRITE, WHERE);
    return memmove(to, from, bytes);
}
void* emulated_memset(void* to, int value, std::size_t bytes) {
    if (bytes) seen(to, bytes, emulated::WRITE, WHERE);
    return memset(to, value, bytes);
}
}
