// A warp's stack of nodes that it has still to look at, in shared memory: ranges of up to eight nodes that follow one
// another, the children of a cell, as one word each.
//
// A step takes up to 32 nodes, one for each lane, and pushes the children of some of them. What it pushes lies deeper
// in the tree than what remains below, so the stack stays short. Where it is long all the same, a step takes one range
// and pushes eight at most, for each level of the tree once: the stack never overflows.

constexpr int most_ranges = 512;
constexpr int many_ranges = most_ranges - 32 - 8 * levels;
static_assert(many_ranges >= 64, "the stack holds what deep trees push");

struct NodeStack {
    unsigned ranges[most_ranges];

    // Put one node there; return how many ranges there are.
    __device__ __forceinline__ int begin(int node) {
        if (lane_of_thread() == 0) ranges[0] = static_cast<unsigned>(node) << 3;
        __syncwarp();
        return 1;
    }

    // Take the last ranges, of the `top` that are there, as far as they have 32 nodes at most; return this lane's node,
    // or -1.
    __device__ __forceinline__ int pop(int& top) const {
        const int lane = lane_of_thread();
        const int most = top > many_ranges ? 1 : top;
        const unsigned range = lane < most ? ranges[top - 1 - lane] : 0;
        __syncwarp();  // before others push
        const int length = lane < most ? static_cast<int>(range & 7) + 1 : 0;
        const int end = inclusive_scan(length);
        const bool taken = lane < most && end <= 32;
        const int count = __popc(lanes_where(taken));
        const int nodes = broadcast(end, count - 1);
        // The lanes at which ranges begin, up to this one: the last of them is that of this lane's range.
        const unsigned begins = warp_or(taken ? 1u << (end - length) : 0) & (whole_warp >> (31 - lane));
        const unsigned own = __shfl_sync(whole_warp, range, __popc(begins) - 1);
        top -= count;
        return lane < nodes ? static_cast<int>(own >> 3) + lane - (31 - __clz(begins)) : -1;
    }

    // Put the children of those lanes' cells there that are `divided`: -count nodes from node `first` on.
    __device__ __forceinline__ void push(int& top, bool divided, int first, int count) {
        const unsigned all = lanes_where(divided);
        if (divided) {
            ranges[top + rank_among(all)] = static_cast<unsigned>(first) << 3 | static_cast<unsigned>(-count - 1);
        }
        top += __popc(all);
    }
};
