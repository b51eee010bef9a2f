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

// The pool, of which all warps take words.
struct Pool {
    int* entries;
    Used* used;
    int capacity;

    // Take words for what the warp has collected; return where they begin, or none where they do not fit.
    __device__ __forceinline__ int take(int words) const {
        __syncwarp();
        int begin = none;
        if (lane_of_thread() == 0) {
            const Used before = atomicAdd(used, static_cast<Used>(words));
            if (before + words <= static_cast<Used>(capacity)) begin = static_cast<int>(before);
        }
        return broadcast(begin, 0);
    }

    // Read how many words are used: slow, as all warps add to this number.
    __device__ __forceinline__ Used read() const {
        return __ldcg(used);
    }

    // Return how many words were used before those that begin here.
    __device__ __forceinline__ Used before(int begin) const {
        return begin == none ? capacity : begin;
    }

    // Tell whether half of the room is left. Lists by theta alone seldom take more than that.
    __device__ __forceinline__ bool has_room(Used used_before) const {
        return 2 * used_before < static_cast<Used>(capacity);
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
__device__ __forceinline__ void append(Collected& list, int& count, int& head, bool has, int node, const Pool& pool) {
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
