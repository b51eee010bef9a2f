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
            int children;
            if (!is_last_child(pending, node, children)) break;
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

static_assert(WARPS == 1 || P == 32 * WARPS, "warps that share their bodies are a block");

// Threads of a multiprocessor for which the compiler has to leave registers: 40 of them for one body in float32.
constexpr int resident_threads = sizeof(real) == 4 && R <= 2 ? (R == 1 ? 1536 : 1024) : 512;

// What the kernel reads, and where it leaves accelerations and, for the next evaluation, their lengths.
struct Given {
    const Body *sorted, *centres;
    const Rest* rests;
    const Quadrupole* seconds;
    const Link* links;
    const long long* order;
    real* last;
    Sums* accelerations;
    const Cube* cube;
    real eps2, inverse_theta, part;
};

// What a walk has walk. Of what all warps of these bodies have met, each adds up the cells and the batches of bodies
// whose numbers are its own.
struct Walk {
    Sums sums[R];
    real contributions;  // of this lane's cells where cells are seen from
    unsigned nodes;      // accepted cells, and bodies of leaves
    unsigned cells, batches;
    int bodies;
};

// What is read of a lane's node in a step of a walk.
struct Visited {
    int node;
    Body centre;
    Link link;
};

// Put boxes around the bodies of a walk. OPENING 2: cells are judged by the accelerations of the last evaluation.
__device__ __forceinline__ void write_boxes(WarpRoom& room, const Given& given, const Walkers& walkers) {
    __syncwarp();  // before the boxes of the last walk are replaced
#pragma unroll
    for (int b = 0; b < R; ++b) {
        GroupBox box = group_box_of(walkers.own[b]);
#if OPENING == 2
        const real length = given.cube->stronger * given.last[given.order[walkers.place(b)]];
        // A NaN is no length.
        judge_by(box, given.part * warp_min<lanes_of_box>(length > 0 ? length : 0), given.inverse_theta);
#endif
        if (writes_box()) room.boxes[box_of_lane(b)] = box;
    }
}

// Tell whether a node acts by its bodies or its children: by the boxes, or by the bodies of the walk themselves.
__device__ __forceinline__ bool is_near(const Given& given, const WarpRoom& room, const Body (&own)[R],
                                        const Visited& visited, bool by_boxes) {
    return by_boxes ? too_near(visited.link, visited.centre, room.boxes, given.eps2)
                    : too_near_a_body(visited.link, visited.centre, own, room.boxes, given.eps2);
}

// Stage the cells of these lanes, seen from where cells act, and rows without mass to fill the last ones up.
__device__ __forceinline__ void stage_cells(WarpRoom& room, const Given& given, const Visited& visited,
                                            const Offset& at, bool staged, unsigned lanes) {
    const int lane = lane_of_thread(), count = __popc(lanes);
    if (staged) {
        const int place = rank_among(lanes);
        room.staged[place] = Body{at.x, at.y, at.z, visited.centre.mass};
#if QUADRUPOLE
        room.seconds[place] = given.seconds[visited.node];
#endif
    }
    if (lane < 4) {
        room.staged[count + lane] = Body{};
#if QUADRUPOLE
        room.seconds[count + lane] = Quadrupole{};
#endif
    }
    __syncwarp();
}

// Add up what the accepted cells do to the bodies.
__device__ __forceinline__ void add_accepted(Walk& walk, WarpRoom& room, const Given& given, const Walkers& walkers,
                                             const Visited& visited, bool accepted) {
    Offset at = {};
    if (accepted) {
        at = way(walkers.from, Rest{}, visited.centre, given.rests[visited.node]);
        if (OPENING == 2) walk.contributions += contribution_of(visited.centre.mass, at, given.eps2);
    }
    unsigned lanes = lanes_where(accepted);
    walk.nodes += __popc(lanes);
    bool staged = accepted;
    const unsigned number = walk.cells + rank_among(lanes);
    walk.cells += __popc(lanes);
    if (WARPS > 1) {
        staged = accepted && number % WARPS == walkers.share;
        lanes = lanes_where(staged);
    }
    if (lanes) {
        stage_cells(room, given, visited, at, staged, lanes);
        Body seen[R];
#pragma unroll
        for (int b = 0; b < R; ++b) {
            const Offset of_own = way(walkers.from, Rest{}, walkers.own[b], Rest{});
            seen[b] = Body{of_own.x, of_own.y, of_own.z, 0};
        }
        add_cells(walk.sums, seen, room, __popc(lanes), given.eps2);
    }
    __syncwarp();
}

// Add up what the bodies of the leaves do to the bodies, a batch of 32 at a time.
__device__ __forceinline__ void add_leaves(Walk& walk, WarpRoom& room, const Given& given, const Walkers& walkers,
                                           const Visited& visited, bool is_leaf) {
    const int lane = lane_of_thread();
    const BodyRanges leaves(visited.link.begin, is_leaf ? visited.link.count : 0);
    const int begin = WARPS > 1 ? 32 * static_cast<int>((walkers.share - walk.batches) % WARPS) : 0;
    for (int done = begin; done < leaves.all; done += 32 * WARPS) {
        room.staged[lane] = leaves.at(given.sorted, done + lane);
        __syncwarp();
        add_bodies(walk.sums, walkers.own, room.staged, min(32, leaves.all - done), given.eps2);
        __syncwarp();
    }
    walk.batches += (leaves.all + 31) / 32;
    walk.nodes += leaves.all;
    walk.bodies += leaves.all;
}

// Walk from the root to all that acts on the bodies. Beyond `many` nodes, nodes are compared with the bodies.
__device__ __forceinline__ void walk_from_root(Walk& walk, WarpRoom& room, const Given& given, const Walkers& walkers,
                                               unsigned many) {
    walk = Walk{};
    int top = room.stack.begin(0);
    while (top > 0) {
        const int taken = room.stack.pop(top);
        const bool valid = taken >= 0;
        const int node = max(taken, 0);
        const Visited visited = {node, given.centres[node], given.links[node]};
        const bool near = is_near(given, room, walkers.own, visited, walk.nodes <= many);
        const bool accepted = valid && !near, is_leaf = valid && near && visited.link.count > 0;
        room.stack.push(top, valid && near && visited.link.count < 0, visited.link.begin, visited.link.count);
        add_accepted(walk, room, given, walkers, visited, accepted);
        if (lanes_where(is_leaf)) add_leaves(walk, room, given, walkers, visited, is_leaf);
    }
}

// Keep the lengths of the accelerations, and judge by them from now on; tell whether any body is pulled less than half
// as much as the cells were judged by.
__device__ __forceinline__ bool judged_by_too_much(WarpRoom& room, const Given& given, const Walkers& walkers,
                                                   const Walk& walk) {
    bool too_much = false;
    const real least = warp_sum(walk.contributions) / 32;
#pragma unroll
    for (int b = 0; b < R; ++b) {
        const Sums& of = walk.sums[b];
        const real length = max(sqrt(of.ax * of.ax + (of.ay * of.ay + of.az * of.az)), least);
        if (walkers.writes(b)) given.last[given.order[walkers.first + b * 32 + lane_of_thread()]] = length;
        const real least_length = warp_min<lanes_of_box>(length);
        GroupBox& box = room.boxes[box_of_lane(b)];
        too_much =
            too_much || (box.by_pull > 0 && by_half_the_pull(box.by_pull) < by_pull_of(given.part * least_length));
        __syncwarp();
        if (writes_box()) judge_by(box, given.part * least_length, given.inverse_theta);
    }
    return lanes_where(too_much) != 0;
}

__device__ __forceinline__ void write_accelerations(const Given& given, const Walkers& walkers, const Walk& walk) {
#pragma unroll
    for (int b = 0; b < R; ++b) {
        Sums sums = walk.sums[b];
        if (COUNT) {
            sums.ax = walk.bodies;
            sums.ay = walk.cells;
        }
        const int place = walkers.first + b * 32 + lane_of_thread();
        if (walkers.writes(b)) given.accelerations[given.order[place]] = sums;
    }
}

extern "C" __global__ void __launch_bounds__(P, resident_threads > P ? resident_threads / P : 1)
    resident_tree(const Body* __restrict__ sorted, const Body* __restrict__ centres, const Rest* __restrict__ rests,
                  const Quadrupole* __restrict__ seconds, const Link* __restrict__ links,
                  const long long* __restrict__ order, real* __restrict__ last, Sums* __restrict__ accelerations, int n,
                  real eps2, real inverse_theta, real part, const Cube* __restrict__ cube, Met* met, int number,
                  int shares) {
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    const int group = (blockIdx.x * (P / 32 / WARPS) + threadIdx.x / 32 / WARPS) * shares + number;
    if (group > (n - 1) / (32 * R)) return;
    const Given given = {sorted, centres,       rests, seconds, links,         order,
                         last,   accelerations, cube,  eps2,    inverse_theta, part};
    const int share = threadIdx.x / 32 % WARPS, first = group * 32 * R;
    // All bodies of the group, but where some are so far from others that distances to cells would lose digits: then
    // those up to the first such body, in several walks. (Counted in the group, or the compiler cannot tell that all
    // lanes do the same.)
    int start = 0;
    while (start < 32 * R) {
        Walkers walkers = {share, first, start, 32 * R, n, sorted[min(first + start, n - 1)]};
        walkers.read(sorted);
        walkers.stop = first_far(walkers.own, walkers.from, eps2);
        if (walkers.stop < 32 * R) walkers.read(sorted);
        write_boxes(room, given, walkers);
        const unsigned many = met->many;
        Walk walk;
        bool again = false;
        do {
            walk_from_root(walk, room, given, walkers, many);
#if WARPS > 1 && !COUNT
            join_sums(walk.sums, rooms);
#endif
            if (OPENING == 2 && !COUNT) again = judged_by_too_much(room, given, walkers, walk);
        } while (again);
        if (!COUNT && lane_of_thread() == 0 && share == 0) {
            atomicAdd(&met->all, static_cast<unsigned long long>(walk.nodes));
        }
        write_accelerations(given, walkers, walk);
        start = walkers.stop;
    }
}
#endif
