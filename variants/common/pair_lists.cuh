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

// A warp's access to the pool.
struct Pool {
    int* entries;
    Used* used;
    int capacity;
    Used taken;  // words that all warps had taken when this one last looked; 0 before

    // Take words for what the warp has collected; return where they begin, or none where they do not fit.
    __device__ __forceinline__ int take(int words) {
        __syncwarp();
        int begin = none;
        if (lane_of_thread() == 0) {
            const Used before = atomicAdd(used, static_cast<Used>(words));
            if (before + words <= static_cast<Used>(capacity)) begin = static_cast<int>(before);
        }
        begin = broadcast(begin, 0);
        taken = begin == none ? capacity : begin;
        return begin;
    }

    // Look how much is taken where this warp has taken nothing yet: all warps add to one word, which is slow to read.
    __device__ __forceinline__ void look() {
        if (taken == 0) taken = __ldcg(used);
    }

    // Tell whether half of the room is left. Lists by theta alone seldom take more than that.
    __device__ __forceinline__ bool has_room() const {
        return 2 * taken < static_cast<Used>(capacity);
    }
};

// Write a segment where room was taken for it, before `next`; move `begin` behind it. Return the list's new head.
__device__ __forceinline__ int write_segment(int* entries, int& begin, const Collected& list, int count, int next) {
    if (begin == none || count == 0) return next;
    const int lane = threadIdx.x % 32, segment = begin;
    if (lane == 0) {
        entries[segment] = count;
        entries[segment + 1] = next;
    }
    for (int k = lane; k < count; k += 32) entries[segment + 2 + k] = list.entries[k];
    begin += count + 2;
    return segment;
}

// Append the nodes of those lanes that have one.
__device__ __forceinline__ void append(Collected& list, int& count, int& head, bool has, int node, Pool& pool) {
    const int lane = threadIdx.x % 32;
    const unsigned all = lanes_where(has);
    if (has) list.entries[count + rank_among(all)] = node;
    count += __popc(all);
    if (count >= segment_entries) {
        int begin = pool.take(segment_entries + 2);
        head = write_segment(pool.entries, begin, list, segment_entries, head);
        count -= segment_entries;
        int moved = 0;
        if (lane < count) moved = list.entries[segment_entries + lane];
        __syncwarp();
        if (lane < count) list.entries[lane] = moved;
        __syncwarp();
    }
}
