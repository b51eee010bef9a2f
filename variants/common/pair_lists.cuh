// Lists of cells of any length in one pool of memory, each a chain of segments: [count, next, entries...].
//
// A warp collects a list in shared memory and takes a segment of the pool whenever enough are there. `used` counts what
// is wanted of the pool, even beyond its capacity: then what does not fit is missing, and whoever reads the lists has
// to look at `used` first.

constexpr int none = -1;
constexpr int segment_entries = 224;  // whole warps: only the last segment of a list has fewer

// The first segments of what a cell has: cells far from it, leaves near it, cells that its children have to look at,
// cells that act on each of its bodies by itself.
struct __align__(16) Heads {
    int far, near, rest, seen;
};

typedef unsigned long long Used;

struct Collected {
    int entries[segment_entries + 32];
};

// Take words of the pool for what the warp has collected; return where they begin, or none where they do not fit.
__device__ __forceinline__ int take(Used* used, long long capacity, int words) {
    __syncwarp();
    int begin = none;
    if (threadIdx.x % 32 == 0) {
        const Used taken = atomicAdd(used, static_cast<Used>(words));
        if (taken + words <= static_cast<Used>(capacity)) begin = static_cast<int>(taken);
    }
    return broadcast(begin, 0);
}

// Write a segment where room was taken for it, before `next`; move `begin` behind it. Return the list's new head.
__device__ __forceinline__ int write_segment(int* pool, int& begin, const Collected& list, int count, int next) {
    if (begin == none || count == 0) return next;
    const int lane = threadIdx.x % 32, segment = begin;
    if (lane == 0) {
        pool[segment] = count;
        pool[segment + 1] = next;
    }
    for (int k = lane; k < count; k += 32) pool[segment + 2 + k] = list.entries[k];
    begin += count + 2;
    return segment;
}

// Append the nodes of those lanes that have one.
__device__ __forceinline__ void append(Collected& list, int& count, int& head, bool has, int node, int* pool,
                                       Used* used, long long capacity) {
    const int lane = threadIdx.x % 32;
    const unsigned all = lanes_where(has);
    if (has) list.entries[count + rank_among(all)] = node;
    count += __popc(all);
    if (count >= segment_entries) {
        int begin = take(used, capacity, segment_entries + 2);
        head = write_segment(pool, begin, list, segment_entries, head);
        count -= segment_entries;
        int moved = 0;
        if (lane < count) moved = list.entries[segment_entries + lane];
        __syncwarp();
        if (lane < count) list.entries[lane] = moved;
        __syncwarp();
    }
}
