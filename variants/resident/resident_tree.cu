// Build the tree and walk it on the GPU; bodies never leave it, and the host waits for nothing.
//
// Against barnes_hut: the host builds no tree, and nothing crosses the bus. Seven kernels and a library's sort make one
// evaluation, each with a thread for every body or node. Expected: the build takes a fraction of the walk, where it
// took the host several times as long.
//
// KERNEL 1 to 5 and a library's sort build the tree (tree_build.cuh). 6 computes moments (tree_moments.cuh): one thread
// for each leaf, which goes on to the parent if it is the last of its children to arrive. 0 walks (tree_walk.cuh).
//
// A warp walks for 32 * R bodies that are neighbours in the order. In each step it takes up to 32 nodes from a stack,
// one for each lane, and compares them with BOXES boxes around each 32 of its bodies: bodies far from each other in
// space or in their accelerations then do not open cells for one another that none of them needs opened. The children
// of opened cells go back to the stack as one range of nodes for each cell. The accepted cells, and then the bodies of
// opened leaves, are staged in shared memory, from where all lanes add them up. A step pushes at most 32 ranges, and
// what it pushes lies deeper in the tree than what remains below; so a stack of 32 ranges for each of the BITS + 1
// levels never overflows. Expected: instructions are those of the interactions, 14 for a body or a centre of mass and
// 35 for a quadrupole, and a fifth as many more.
//
// Where the nodes do not fit into `capacity`, the cells of the last level that fits are leaves, whatever they hold:
// that is slower, and as right. OPENING 2: where all bodies fill a smaller or a larger cube than in the last
// evaluation, as when they are in other units, the accelerations are taken to be those of the same bodies at that
// scale; where the accelerations turn out less than half of what the cells were judged by, the warp walks again.
//
// WARPS warps of a block may walk for the same bodies. Each of them finds the same cells, and adds up its part of them.
// Expected: more warps where there are few bodies, and the last of them end sooner; each repeats the comparisons.
//
// COUNT 1: what a body meets takes the place of its acceleration: bodies, cells. Global loads per body: depends on
// theta. bodies[i] = x, y, z, mass, n rows; accelerations[i] = x, y, z, 0, n rows; last: n lengths of accelerations, or
// NaN.
#include "tree_box.cuh"
#include "tree_cells.cuh"
#if KERNEL == 2 || KERNEL == 3 || KERNEL == 5 || KERNEL == 6
#include "tree_keys.cuh"
#endif
#if KERNEL == 3 || KERNEL == 5
#include "tree_levels.cuh"
#endif
#if KERNEL == 6
#include "tree_moments.cuh"
#endif

#include "tree_build.cuh"

#if KERNEL == 6
extern "C" __global__ void __launch_bounds__(BLOCK)
    resident_tree_moments(const Body* __restrict__ sorted, const Bound* __restrict__ bounds,
                          const int* __restrict__ tree, const Cube* __restrict__ cube, Body* centres,
                          Quadrupole* seconds, Link* links, int* pending, real inverse_theta, real* scale) {
    const int nodes = *tree;
    const Cube whole = *cube;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const real closer = scale[1] > 0 ? scale[1] / whole.width : 1;
        scale[0] = closer * closer;
        scale[1] = whole.width;
    }
    for (int leaf = blockIdx.x * BLOCK + threadIdx.x; leaf < nodes; leaf += gridDim.x * BLOCK) {
        Bound bound = bounds[leaf];
        if (bound.bodies == 0) continue;
        int node = leaf, begin = bound.first, count = bound.bodies;
        Moments moments = moments_of_bodies(sorted, begin, count);
        while (true) {
            centres[node] = moments.centre;
            if (QUADRUPOLE) seconds[node] = moments.second;
            const real reach = reach_of(moments, sorted[bound.first], bound.level, whole, inverse_theta);
            links[node] = Link{reach, begin, count};
            node = bound.parent;
            if (node < 0) break;
            __threadfence();
            // In the lower half the children that have not arrived, in the upper half all of them.
            const int left = atomicAdd(pending + node, -1) - 1;
            if (left & 0xffff) break;
            __threadfence();
            pending[node] = 0;
            const int children = left >> 16;
            begin = __ldcg(&links[node].begin);
            count = -children;
            bound = bounds[node];
            moments = moments_of_cells(centres, seconds, links, begin, children);
        }
    }
}
#endif

#if KERNEL == 0
#include "tree_walk.cuh"

// Threads of a multiprocessor for which the compiler has to leave registers: 40 of them for one body in float32.
constexpr int resident_threads = sizeof(real) == 4 && R <= 2 ? (R == 1 ? 1536 : 1024) : 512;

extern "C" __global__ void __launch_bounds__(P, resident_threads > P ? resident_threads / P : 1)
    resident_tree(const Body* __restrict__ sorted, const Body* __restrict__ centres,
                  const Quadrupole* __restrict__ seconds, const Link* __restrict__ links,
                  const long long* __restrict__ order, real* __restrict__ last, Sums* __restrict__ accelerations, int n,
                  real eps2, real inverse_theta, real part, const real* __restrict__ scale) {
    static_assert(WARPS == 1 || P == 32 * WARPS, "warps that share their bodies are a block");
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const int share = threadIdx.x / 32 % WARPS;
    const int first = (blockIdx.x * (P / 32 / WARPS) + threadIdx.x / 32 / WARPS) * 32 * R;
    if (first >= n) return;
    const unsigned up_to_lane = 0xffffffffu >> (31 - lane), before_lane = up_to_lane >> 1;

    Body own[R];
    int home[R];
#pragma unroll
    for (int b = 0; b < R; ++b) {
        // Lanes beyond the last body repeat it and write nothing.
        const int k = min(first + b * 32 + lane, n - 1);
        own[b] = sorted[k];
        home[b] = static_cast<int>(order[k]);
    }
    const int of_lane = lane / lanes_of_box;
    const bool writes_box = lane % lanes_of_box == 0;
#pragma unroll
    for (int b = 0; b < R; ++b) {
        GroupBox box = group_box_of(own[b]);
#if OPENING == 2
        const real length = *scale * last[home[b]];
        // A NaN is no length.
        judge_by(box, part * least_of_box(length > 0 ? length : 0), inverse_theta);
#endif
        if (writes_box) room.boxes[b * BOXES + of_lane] = box;
    }

    Sums sums[R];
    bool again;
    do {
#pragma unroll
        for (int b = 0; b < R; ++b) sums[b] = Sums{};
#if COUNT
        int met_bodies = 0;
#endif
        // What all warps of these bodies have met: each adds up the cells and batches whose numbers are its own.
        unsigned met_cells = 0, met_batches = 0;
        int top = 1;
        if (lane == 0) room.ranges[0] = range_of(0, 1);
        __syncwarp();
        while (top > 0) {
            // Take ranges from the stack, as many as have 32 nodes at most.
            const unsigned range = lane < top ? room.ranges[top - 1 - lane] : 0;
            __syncwarp();  // before others push
            const int length = lane < top ? static_cast<int>(range & 7) + 1 : 0;
            const int end = sum_up_to_lane(length, lane);
            const bool taken = lane < top && end <= 32;
            const int ranges = __popc(__ballot_sync(all_lanes, taken));
            const int taken_nodes = __shfl_sync(all_lanes, end, ranges - 1);
            const unsigned begins = bits_of_warp(taken ? 1u << (end - length) : 0) & up_to_lane;
            const unsigned source = __shfl_sync(all_lanes, range, __popc(begins) - 1);
            const bool valid = lane < taken_nodes;
            const int node = valid ? static_cast<int>(source >> 3) + lane - (31 - __clz(begins)) : 0;
            top -= ranges;

            const Body centre = centres[node];
            const Link link = links[node];
            const bool near = too_near(link, centre, room.boxes);
            const bool accepted = valid && !near, is_leaf = valid && near && link.count > 0;
            const bool divided = valid && near && link.count < 0;

            const unsigned pushed = __ballot_sync(all_lanes, divided);
            if (divided) room.ranges[top + __popc(pushed & before_lane)] = range_of(link.begin, -link.count);
            top += __popc(pushed);

            unsigned cells = __ballot_sync(all_lanes, accepted);
            bool staged = accepted;
            if (WARPS > 1) {
                const unsigned number = met_cells + __popc(cells & before_lane);
                met_cells += __popc(cells);
                staged = accepted && number % WARPS == share;
                cells = __ballot_sync(all_lanes, staged);
            } else if (COUNT) {
                met_cells += __popc(cells);
            }
            if (cells) {
                const int count = __popc(cells);
                if (staged) {
                    const int place = __popc(cells & before_lane);
                    room.staged[place] = centre;
#if QUADRUPOLE
                    room.seconds[place] = seconds[node];
#endif
                }
                if (lane < 4) {
                    room.staged[count + lane] = Body{};
#if QUADRUPOLE
                    room.seconds[count + lane] = Quadrupole{};
#endif
                }
                __syncwarp();
                add_cells(sums, own, room, count, eps2);
            }
            __syncwarp();

            if (__ballot_sync(all_lanes, is_leaf)) {
                const int bodies = is_leaf ? link.count : 0;
                const int up_to = sum_up_to_lane(bodies, lane);
                const int all_bodies = __shfl_sync(all_lanes, up_to, 31);
                const int origin = link.begin - (up_to - bodies);
                const int begin = WARPS > 1 ? 32 * static_cast<int>((share - met_batches) % WARPS) : 0;
                for (int done = begin; done < all_bodies; done += 32 * WARPS) {
                    // Find the leaf of the body that this lane brings: the first that ends behind it.
                    int leaf = 0;
#pragma unroll
                    for (int step = 16; step > 0; step >>= 1) {
                        if (__shfl_sync(all_lanes, up_to, leaf + step - 1) <= done + lane) leaf += step;
                    }
                    const int k = __shfl_sync(all_lanes, origin, leaf) + done + lane;
                    room.staged[lane] = done + lane < all_bodies ? sorted[k] : Body{};
                    __syncwarp();
                    add_bodies(sums, own, room.staged, min(32, all_bodies - done), eps2);
                    __syncwarp();
                }
                met_batches += (all_bodies + 31) / 32;
#if COUNT
                met_bodies += all_bodies;
#endif
            }
        }
#if COUNT
#pragma unroll
        for (int b = 0; b < R; ++b) {
            sums[b].ax = met_bodies;
            sums[b].ay = met_cells;
        }
#endif
#if WARPS > 1 && !COUNT
        join_sums(sums, rooms);
#endif
        again = false;
#if OPENING == 2 && !COUNT
#pragma unroll
        for (int b = 0; b < R; ++b) {
            const Sums& of = sums[b];
            const real length = sqrt(of.ax * of.ax + (of.ay * of.ay + of.az * of.az));
            if (share == 0 && first + b * 32 + lane < n) last[home[b]] = length;
            const real found = least_of_box(length);
            // What was assumed is 1 / (part * by_pull^2).
            GroupBox& box = room.boxes[b * BOXES + of_lane];
            again = again || (box.by_pull > 0 && 2 * part * found * box.by_pull * box.by_pull < 1);
            __syncwarp();
            if (writes_box) judge_by(box, part * found, inverse_theta);
        }
        again = __ballot_sync(all_lanes, again) != 0;
#endif
    } while (again);
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (share == 0 && first + b * 32 + lane < n) accelerations[home[b]] = sums[b];
    }
}
#endif
