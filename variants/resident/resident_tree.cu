// Build the tree and walk it on the GPU; bodies never leave it, and the host waits for nothing.
//
// Against barnes_hut: the host builds no tree, and nothing crosses the bus. Seven kernels and a library's sort make one
// evaluation, each with a thread for every body or node. Expected: the build takes a fraction of the walk, where it
// took the host several times as long.
//
// Five kernels and a library's sort build the tree (tree_build.cuh). resident_tree_moments computes moments
// (tree_moments.cuh): one thread for each leaf, which goes on to the parent if it is the last of its children to
// arrive. resident_tree walks (tree_walk.cuh).
//
// A warp walks for 32 * R bodies that are neighbours in the order. In each step it takes up to 32 nodes from a stack,
// one for each lane, and compares them with BOXES boxes around each 32 of its bodies: bodies far from each other in
// space or in their accelerations then do not open cells for one another that none of them needs opened. The children
// of opened cells go back to the stack as one range of nodes for each cell. The accepted cells, and then the bodies of
// opened leaves, are staged in shared memory, from where all lanes add them up. What a step pushes lies deeper in the
// tree than what remains below, so the stack stays short; where it is long all the same, a step takes one range.
// Expected: instructions are those of the interactions, 14 for a body or a centre of mass and 35 for a quadrupole, and
// a fifth as many more.
//
// No walk is much longer than the others. A walk that has met twice as much as the mean of the last evaluation compares
// nodes with its bodies instead of the boxes around them (`too_near_a_body`). OPENING 2 judges cells by the
// acceleration of a body in the last evaluation, but by no less than a part, 1 / 32, of what the contributions of
// all cells are together: a body whose contributions cancel would open all cells, and its error is small beside these.
//
// Where the nodes do not fit into `capacity`, the cells of the last level that fits are leaves, whatever they hold:
// that is slower, and as right. OPENING 2: where all bodies fill a smaller or a larger cube than in the last
// evaluation, as when they are in other units, the accelerations are taken to be those of the same bodies at that
// scale; where the accelerations turn out less than half of what the cells were judged by, the warp walks again.
//
// Of several GPUs each builds the whole tree and walks for every `shares`-th group of 32 * R bodies, from group
// `number` on (resident_tree_gpus).
//
// WARPS warps of a block may walk for the same bodies. Each of them finds the same cells, and adds up its part of them.
// Expected: more warps where there are few bodies, and the last of them end sooner; each repeats the comparisons.
//
// COUNT 1: what a body meets takes the place of its acceleration: bodies, cells. Global loads per body: depends on
// theta. bodies[i] = x, y, z, mass, n rows; accelerations[i] = x, y, z, 0, n rows; last: n lengths of accelerations, or
// NaN.

// A kernel is compiled where KERNEL_ and its name are defined, with the constants that it depends on. A header is read
// where its constants are defined.
#include "tree_box.cuh"
#include "tree_cells.cuh"
#include "warp.cuh"
#ifdef BITS
#include "tree_keys.cuh"
#endif
#ifdef RANKS
#include "tree_depth.cuh"
#endif
#ifdef LEAF
#include "tree_levels.cuh"
#endif
#ifdef OPENING
#include "tree_moments.cuh"
#endif
#include "tree_build.cuh"

// What the walks of an evaluation have met, all together, and how much each of the next may meet before it compares
// nodes with its bodies.
struct Met {
    unsigned long long all;
    unsigned many, nothing;
};

#ifdef KERNEL_resident_tree_moments
extern "C" __global__ void __launch_bounds__(BLOCK)
    resident_tree_moments(const Body* __restrict__ sorted, const Bound* __restrict__ bounds,
                          const int* __restrict__ tree, const Cube* __restrict__ cube, Body* centres, Rest* rests,
                          Quadrupole* seconds, Link* links, int* pending, Met* met, int walks, real inverse_theta) {
    const int nodes = *tree;
    const Cube whole = *cube;
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const unsigned long long twice_the_mean = 2 * met->all / static_cast<unsigned>(max(walks, 1));
        met->many = twice_the_mean > 0 ? static_cast<unsigned>(twice_the_mean) : 0xffffffff;
        met->all = 0;
    }
    for (int leaf = blockIdx.x * BLOCK + threadIdx.x; leaf < nodes; leaf += gridDim.x * BLOCK) {
        Bound bound = bounds[leaf];
        if (bound.bodies == 0) continue;
        int node = leaf, begin = bound.first, count = bound.bodies;
        Moments moments = moments_of_bodies(sorted, begin, count);
        while (true) {
            centres[node] = moments.centre;
            rests[node] = moments.rest;
            if (QUADRUPOLE) seconds[node] = moments.second;
            const real reach = reach_of(moments, sorted[bound.first], bound.level, whole, inverse_theta);
            const real weight = OPENING == 2 ? weight_of(moments.centre.mass, moments.farthest) : 0;
            links[node] = Link{reach, weight, begin, count};
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
            moments = moments_of_cells(centres, rests, seconds, links, begin, children);
        }
    }
}
#endif

#ifdef KERNEL_resident_tree
#include "body_ranges.cuh"
#include "tree_stack.cuh"
#include "tree_walk.cuh"

// Threads of a multiprocessor for which the compiler has to leave registers: 40 of them for one body in float32.
constexpr int resident_threads = sizeof(real) == 4 && R <= 2 ? (R == 1 ? 1536 : 1024) : 512;

extern "C" __global__ void __launch_bounds__(P, resident_threads > P ? resident_threads / P : 1)
    resident_tree(const Body* __restrict__ sorted, const Body* __restrict__ centres, const Rest* __restrict__ rests,
                  const Quadrupole* __restrict__ seconds, const Link* __restrict__ links,
                  const long long* __restrict__ order, real* __restrict__ last, Sums* __restrict__ accelerations, int n,
                  real eps2, real inverse_theta, real part, const Cube* __restrict__ cube, Met* met, int number,
                  int shares) {
    static_assert(WARPS == 1 || P == 32 * WARPS, "warps that share their bodies are a block");
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    const int lane = lane_of_thread();
    const int share = threadIdx.x / 32 % WARPS;
    const int group = (blockIdx.x * (P / 32 / WARPS) + threadIdx.x / 32 / WARPS) * shares + number;
    if (group > (n - 1) / (32 * R)) return;
    const int first = group * 32 * R;
    // All bodies of the group, but where some are so far from others that distances to cells would lose digits: then
    // those up to the first such body, in several walks. (Counted in the group, or the compiler cannot tell that all
    // lanes do the same.)
    int start = 0;
    while (start < 32 * R) {
        const Body from = sorted[min(first + start, n - 1)];  // as seen from here cells act on the bodies
        Body own[R];
        read_bodies(own, sorted, first, start, 32 * R, n);
        const int stop = first_far(own, from, eps2);
        if (stop < 32 * R) read_bodies(own, sorted, first, start, stop, n);
        __syncwarp();  // before the boxes of the last walk are replaced
        const int of_lane = lane / lanes_of_box;
        const bool writes_box = lane % lanes_of_box == 0;
#pragma unroll
        for (int b = 0; b < R; ++b) {
            GroupBox box = group_box_of(own[b]);
#if OPENING == 2
            const real length = cube->stronger * last[order[place_in(first, start, stop, b, n)]];
            // A NaN is no length.
            judge_by(box, part * warp_min<lanes_of_box>(length > 0 ? length : 0), inverse_theta);
#endif
            if (writes_box) room.boxes[b * BOXES + of_lane] = box;
        }

        Sums sums[R];
        const unsigned many = met->many;
        unsigned met_nodes;
        bool again;
        do {
            met_nodes = 0;
            real contributions = 0;  // of this lane's cells where cells are seen from
#pragma unroll
            for (int b = 0; b < R; ++b) sums[b] = Sums{};
#if COUNT
            int met_bodies = 0;
#endif
            // What all warps of these bodies have met: each adds up the cells and batches whose numbers are its own.
            unsigned met_cells = 0, met_batches = 0;
            int top = room.stack.begin(0);
            while (top > 0) {
                const int taken = room.stack.pop(top);
                const bool valid = taken >= 0;
                const int node = max(taken, 0);

                const Body centre = centres[node];
                const Link link = links[node];
                const bool near = met_nodes <= many ? too_near(link, centre, room.boxes, eps2)
                                                    : too_near_a_body(link, centre, own, room.boxes, eps2);
                const bool accepted = valid && !near, is_leaf = valid && near && link.count > 0;
                const bool divided = valid && near && link.count < 0;

                room.stack.push(top, divided, link.begin, link.count);

                Offset at = {};
                if (accepted) {
                    at = way(from, Rest{}, centre, rests[node]);
                    if (OPENING == 2) contributions += contribution_of(centre.mass, at, eps2);
                }
                unsigned cells = lanes_where(accepted);
                met_nodes += __popc(cells);
                bool staged = accepted;
                if (WARPS > 1) {
                    const unsigned number = met_cells + rank_among(cells);
                    met_cells += __popc(cells);
                    staged = accepted && number % WARPS == share;
                    cells = lanes_where(staged);
                } else if (COUNT) {
                    met_cells += __popc(cells);
                }
                if (cells) {
                    const int count = __popc(cells);
                    if (staged) {
                        const int place = rank_among(cells);
                        room.staged[place] = Body{at.x, at.y, at.z, centre.mass};
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
                    Body seen[R];
#pragma unroll
                    for (int b = 0; b < R; ++b) {
                        const Offset of_own = way(from, Rest{}, own[b], Rest{});
                        seen[b] = Body{of_own.x, of_own.y, of_own.z, 0};
                    }
                    add_cells(sums, seen, room, count, eps2);
                }
                __syncwarp();

                if (lanes_where(is_leaf)) {
                    const BodyRanges leaves(link.begin, is_leaf ? link.count : 0);
                    const int begin = WARPS > 1 ? 32 * static_cast<int>((share - met_batches) % WARPS) : 0;
                    for (int done = begin; done < leaves.all; done += 32 * WARPS) {
                        room.staged[lane] = leaves.at(sorted, done + lane);
                        __syncwarp();
                        add_bodies(sums, own, room.staged, min(32, leaves.all - done), eps2);
                        __syncwarp();
                    }
                    met_batches += (leaves.all + 31) / 32;
                    met_nodes += leaves.all;
#if COUNT
                    met_bodies += leaves.all;
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
            const real least = warp_sum(contributions) / 32;
#pragma unroll
            for (int b = 0; b < R; ++b) {
                const Sums& of = sums[b];
                const real length = max(sqrt(of.ax * of.ax + (of.ay * of.ay + of.az * of.az)), least);
                if (writes(first, start, stop, b, n)) last[order[first + b * 32 + lane]] = length;
                const real least_length = warp_min<lanes_of_box>(length);
                GroupBox& box = room.boxes[b * BOXES + of_lane];
                again = again || (box.by_pull > 0 && by_half_the_pull(box.by_pull) < by_pull_of(part * least_length));
                __syncwarp();
                if (writes_box) judge_by(box, part * least_length, inverse_theta);
            }
            again = lanes_where(again) != 0;
#endif
        } while (again);
        if (!COUNT && lane == 0 && share == 0) atomicAdd(&met->all, static_cast<unsigned long long>(met_nodes));
#pragma unroll
        for (int b = 0; b < R; ++b) {
            if (writes(first, start, stop, b, n)) accelerations[order[first + b * 32 + lane]] = sums[b];
        }
        start = stop;
    }
}
#endif
