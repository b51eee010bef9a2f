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
// one for each lane, and compares them with the box around its bodies. The children of opened cells go back to the
// stack as one range of nodes for each cell. The accepted cells, and then the bodies of opened leaves, are staged in
// shared memory, from where all lanes add them up. A step pushes at most 32 ranges, and what it pushes lies deeper in
// the tree than what remains below; so a stack of 32 ranges for each of the BITS + 1 levels never overflows. Expected:
// instructions are those of the interactions, 14 for a body or a centre of mass and 35 for a quadrupole, and a fifth as
// many more.
//
// Where the nodes do not fit into `capacity`, the cells of the last level that fits are leaves, whatever they hold:
// that is slower, and as right. OPENING 2: where the accelerations turn out less than half of what the cells were
// judged by, the warp walks again.
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
                          Quadrupole* seconds, Link* links, int* pending, real inverse_theta) {
    const int nodes = *tree;
    const Cube whole = *cube;
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

constexpr int resident_threads = sizeof(real) == 4 && R <= 2 ? 1024 : 512;

extern "C" __global__ void __launch_bounds__(P, resident_threads > P ? resident_threads / P : 1)
    resident_tree(const Body* __restrict__ sorted, const Body* __restrict__ centres,
                  const Quadrupole* __restrict__ seconds, const Link* __restrict__ links,
                  const long long* __restrict__ order, real* __restrict__ last, Sums* __restrict__ accelerations, int n,
                  real eps2, real inverse_theta, real part) {
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const int first = (blockIdx.x * (P / 32) + threadIdx.x / 32) * 32 * R;
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
    Box box = box_of(own[0]);
#pragma unroll
    for (int b = 1; b < R; ++b) join(box, box_of(own[b]));
    box = joined_in_warp(box);
    const real one_half = static_cast<real>(0.5);
    Body middle = {}, half = {};
    middle.x = one_half * (box.least[0] + box.most[0]);
    middle.y = one_half * (box.least[1] + box.most[1]);
    middle.z = one_half * (box.least[2] + box.most[2]);
    half.x = box.most[0] - middle.x;
    half.y = box.most[1] - middle.y;
    half.z = box.most[2] - middle.z;

    real assumed = 0;
#if OPENING == 2
    assumed = last[home[0]];
#pragma unroll
    for (int b = 1; b < R; ++b) assumed = min(assumed, last[home[b]]);
    // A NaN is no length.
    assumed = least_of_warp(assumed > 0 ? assumed : 0);
#endif
    Sums sums[R];
    bool again;
    do {
#pragma unroll
        for (int b = 0; b < R; ++b) sums[b] = Sums{};
        const real pull = part * assumed;
#if COUNT
        int met_bodies = 0, met_cells = 0;
#endif
        int top = 1;
        if (lane == 0) room.ranges[0] = range_of(0, 1);
        __syncwarp();
        while (top > 0) {
            // Take ranges from the stack, as many as have 32 nodes at most.
            const unsigned range = lane < top ? room.ranges[top - 1 - lane] : 0;
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
            const real r2 = squared_distance(centre, middle, half);
            const bool near = too_near(link, centre.mass, r2, pull, inverse_theta);
            const bool accepted = valid && !near, is_leaf = valid && near && link.count > 0;
            const bool divided = valid && near && link.count < 0;

            const unsigned pushed = __ballot_sync(all_lanes, divided);
            if (divided) room.ranges[top + __popc(pushed & before_lane)] = range_of(link.begin, -link.count);
            top += __popc(pushed);

            const unsigned cells = __ballot_sync(all_lanes, accepted);
            if (cells) {
                const int count = __popc(cells);
                if (accepted) {
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
#if COUNT
                met_cells += count;
#endif
            }
            __syncwarp();

            if (__ballot_sync(all_lanes, is_leaf)) {
                const int bodies = is_leaf ? link.count : 0;
                const int up_to = sum_up_to_lane(bodies, lane);
                const int all_bodies = __shfl_sync(all_lanes, up_to, 31);
                const int origin = link.begin - (up_to - bodies);
                for (int done = 0; done < all_bodies; done += 32) {
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
        again = false;
#if OPENING == 2 && !COUNT
        real found = 0;
#pragma unroll
        for (int b = 0; b < R; ++b) {
            const Sums& of = sums[b];
            const real length = sqrt(of.ax * of.ax + (of.ay * of.ay + of.az * of.az));
            found = b > 0 ? min(found, length) : length;
            if (first + b * 32 + lane < n) last[home[b]] = length;
        }
        found = least_of_warp(found);
        again = 2 * found < assumed;
        assumed = found;
#endif
    } while (again);
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (first + b * 32 + lane < n) accelerations[home[b]] = sums[b];
    }
}
#endif
