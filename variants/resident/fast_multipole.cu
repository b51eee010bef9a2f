// Let cells act on cells: gravity of n bodies in a number of operations that grows with n, all of it on the GPU.
//
// Against resident_tree: a cell that is far from another acts on all its bodies at once, through Taylor expansions
// about both centres (expansions.cuh), where a body or a group of bodies met every cell by itself. Expected: a million
// bodies meet 500 bodies each and 10 cells for each body, instead of hundreds, and higher orders make errors smaller at
// little cost.
//
// Five kernels and a library's sort build the tree (tree_build.cuh). Then, each named fast_multipole and a word:
//
// - up goes up the tree, a thread for each leaf, which goes on to the parent if it is the last of its children to
//   arrive: centres of mass, multipoles, the farthest body, the least acceleration.
// - pairs finds for every target cell of one level, a warp each, which cells are far from it. Its candidates are those
//   that its parent left over, together 32 at a time: a far one goes to its list, and so does a near leaf if the target
//   is a leaf; of others the larger cell is divided: the children of a source are looked at at once, and those of the
//   target find the source in what is left over.
// - far adds up, for a target, the local expansions of the far cells, a source for each lane, whose multipoles the warp
//   reads together.
// - down adds up for each leaf those of the cells around it.
//
// fast_multipole itself adds the pulls of the bodies of near leaves and of the leaf's local expansion.
//
// least and walk follow, which mostly end at once; see below.
//
// A leaf may be large and hold a few bodies, far out, beside which all others are a small crowd of small cells: then
// errors of hundreds of these agree in sign and add up, or, if none of them is far, the leaf meets all bodies. So a
// source of less than half its size is far only where the size of the leaf is very small seen from there. Else it acts
// on each body of the leaf by itself, where only its own size matters: far computes that too.
//
// Each pair of cells is computed for both of its targets by itself: so a warp keeps all sums in registers, nothing is
// added up in memory, and results do not depend on the order in which warps run.
//
// JUDGED 0: cells are far from each other where theta times their distance d is more than the sum of the distances of
// their farthest bodies from their centres. 1: where, besides, mass (b / d)^ORDER / d^2 is less than a part of the
// least acceleration in the target in the last evaluation (after Dehnen 2014), so that errors are in proportion to it.
// Here b is the distance of the farthest body of the target, and of the source that of its mass in the mean. Errors of
// a sixteenth of that part of the pull itself are accepted in any case, so that a body whose pulls nearly cancel does
// not meet all others. Where all bodies fill a smaller or a larger cube than then, as when they are in other units, the
// accelerations are taken to be those of the same bodies at that scale. Where bodies turn out to be pulled less than
// half as much as assumed, or nothing was known, least finds the least accelerations anew and a second pass of pairs,
// far, down and fast_multipole follows, which otherwise ends at once. Two leaves of a few bodies are near, as their
// bodies cost less.
//
// Where the bodies have much larger accelerations than in the last evaluation, their lists are many times as long as
// necessary. So once the lists of the first pass take half of the pool, theta alone decides about the cells that are
// left, and the second pass follows. Where the lists do not fit into the pool all the same, walk needs none: 32 bodies
// at a time walk the tree, as in resident_tree. The host sizes the pool for three times what the lists of the first
// bodies take, and again after an evaluation whose lists did not fit.
//
// Global loads per body: depends on theta. bodies[i] = x, y, z, mass, n rows; accelerations[i] = x, y, z, 0, n rows;
// last: n lengths of accelerations, or NaN.

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
#ifdef OPENING  // 2: with the farthest body of a cell
#include "tree_moments.cuh"
#endif
#ifdef ORDER
#include "expansions.cuh"
#endif
#include "body_ranges.cuh"
#include "pair_lists.cuh"
#include "tree_build.cuh"

#ifdef KERNEL_fast_multipole_up
// A cell's size as a source is the mean distance of its mass from the centre, in the sense of power ORDER.
__device__ __forceinline__ real powered(real distance) {
    real power = distance;
#pragma unroll
    for (int k = 1; k < ORDER; ++k) power *= distance;
    return power;
}

__device__ __forceinline__ real root(real power) {
    return power > 0 ? pow(power, static_cast<real>(1) / ORDER) : 0;
}

__device__ __forceinline__ real part_of(const Body& body, const Body& whole) {
    return whole.mass > 0 ? body.mass / whole.mass : 0;
}

// What a cell is to others. JUDGED: also its size as a source, in the unit of the expansion, and the least acceleration
// of its bodies in the last evaluation.
struct Summed {
    Moments moments;
    real multipoles[multipoles];
    real size, least;
};

// What the kernel reads and writes of the cells, where it goes up from those of bodies to those of cells.
struct Cells {
    Body* centres;
    Rest* rests;
    Row* rows;
    real *sizes, *least;
    Link* links;
};

__device__ __forceinline__ void sum_bodies(Summed& cell, const Body* __restrict__ sorted,
                                           const long long* __restrict__ order, const real* __restrict__ last,
                                           int begin, int count, real unit, real stronger) {
    cell.moments = moments_of_bodies(sorted, begin, count);
    real least = 0, size = 0;
#pragma unroll
    for (int k = 0; k < multipoles; ++k) cell.multipoles[k] = 0;
    for (int k = begin; k < begin + count; ++k) {
        const Body body = sorted[k];
        const Offset back = way(body, Rest{}, cell.moments.centre, cell.moments.rest);
        const real x = unit * back.x, y = unit * back.y, z = unit * back.z;
        const real part = part_of(body, cell.moments.centre);
        add_body(cell.multipoles, part, x, y, z);
        if (JUDGED) {
            size += part * powered(sqrt(x * x + (y * y + z * z)));
            // A NaN is no length.
            const real length = stronger * last[order[k]];
            least = k == begin ? length : (length >= least ? least : length);
        }
    }
    cell.least = least > 0 ? least : 0;
    cell.size = root(size);
}

__device__ __forceinline__ void sum_cells(Summed& cell, const Cells& cells, int begin, int children, real unit) {
    cell.moments = moments_of_cells(cells.centres, cells.rests, nullptr, cells.links, begin, children);
    real size = 0;
#pragma unroll
    for (int k = 0; k < multipoles; ++k) cell.multipoles[k] = 0;
#pragma unroll 1
    for (int child = begin; child < begin + children; ++child) {
        const Body centre = fresh(cells.centres + child);
        const Offset back = way(centre, fresh(cells.rests + child), cell.moments.centre, cell.moments.rest);
        const real x = unit * back.x, y = unit * back.y, z = unit * back.z;
        const real part = part_of(centre, cell.moments.centre);
        add_cell(cell.multipoles, cells.rows + child * multipole_rows, part, x, y, z);
        if (JUDGED) {
            // No mean of the parent's is larger, by Minkowski's inequality.
            const real away = unit * __ldcg(cells.sizes + child) + sqrt(x * x + (y * y + z * z));
            size += part * powered(away);
            const real length = __ldcg(cells.least + child);
            cell.least = child == begin ? length : min(cell.least, length);
        }
    }
    cell.size = root(size);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    fast_multipole_up(const Body* __restrict__ sorted, const Bound* __restrict__ bounds, const int* __restrict__ tree,
                      const Cube* __restrict__ cube, const long long* __restrict__ order, const real* __restrict__ last,
                      Body* centres, Rest* rests, Row* rows, real* sizes, real* least, real* found, Link* links,
                      int* pending, int* again) {
    const int nodes = *tree;
    const real unit = unit_of(*cube), stronger = cube->stronger;
    const Cells cells = {centres, rests, rows, sizes, least, links};
    if (blockIdx.x == 0 && threadIdx.x == 0) *again = 0;
    for (int leaf = blockIdx.x * BLOCK + threadIdx.x; leaf < nodes; leaf += gridDim.x * BLOCK) {
        const Bound bound = bounds[leaf];
        if (bound.bodies == 0) continue;
        int node = leaf, begin = bound.first, count = bound.bodies, parent = bound.parent;
        Summed cell;
        sum_bodies(cell, sorted, order, last, begin, count, unit, stronger);
        while (true) {
            centres[node] = cell.moments.centre;
            rests[node] = cell.moments.rest;
            links[node] = Link{cell.moments.farthest, 0, begin, count};
            if (JUDGED) {
                sizes[node] = cell.size / unit;
                least[node] = cell.least;
                found[node] = static_cast<real>(3e38);
            }
#pragma unroll
            for (int k = 0; k < multipole_rows; ++k) rows[node * multipole_rows + k] = row_of(cell.multipoles, k);
            node = parent;
            if (node < 0) break;
            int children;
            if (!is_last_child(pending, node, children)) break;
            begin = __ldcg(&links[node].begin);
            count = -children;
            parent = bounds[node].parent;
            sum_cells(cell, cells, begin, children, unit);
        }
    }
}
#endif

#if defined(KERNEL_fast_multipole_pairs) || defined(KERNEL_fast_multipole_walk)
#include "tree_stack.cuh"

// Two leaves of fewer pairs of bodies than that are near each other, wherever they are.
constexpr int few_pairs = ORDER == 3 ? 6 : (ORDER == 4 ? 12 : (ORDER == 5 ? 24 : 48));

// A leaf of fewer bodies acts on a body no sooner by its multipoles than by its bodies.
constexpr int few_bodies = few_pairs / 2;

// Nearer than that, powers of the distance would leave float32.
__device__ __forceinline__ real shortest_in(const Cube& cube) {
    return cube.width * static_cast<real>(1e-7);
}

// Return (size / D)^ORDER.
__device__ __forceinline__ real power_of(real size, real softened2) {
    const real ratio2 = size * size / softened2;
    real power = ORDER % 2 ? sqrt(ratio2) : 1;
#pragma unroll
    for (int k = 0; k < ORDER / 2; ++k) power *= ratio2;
    return power;
}

#endif

#ifdef KERNEL_fast_multipole_pairs

// A warp's own part of shared memory.
struct WarpRoom {
    Collected far, near, rest, seen;
    NodeStack stack;
};

// The accepted part of the pull itself, as a part of that of the acceleration.
constexpr real of_the_pull = static_cast<real>(1) / 16;

// The part by which all sources that are small beside a leaf may be wrong together, in units of `part`.
constexpr real together = 2;

// What the criterion needs to know beside the cells. Its distances are softened, D^2 = d^2 + eps^2, as the potential is
// that the expansions are of: cells much smaller than eps are far even from themselves.
struct Judge {
    real pull, part, eps2, theta2, shortest2;

    // Tell whether a source of this size acts accurately at a distance; `reach` is that of the two cells together.
    __device__ __forceinline__ bool accepts(real mass, real size, real reach, real r2) const {
        r2 += eps2;
        if (!(theta2 * r2 > reach * reach && r2 > shortest2)) return false;
        if (!JUDGED || !(pull > 0)) return true;
        const real power = power_of(size, r2);
        return mass * power < pull * r2 || power < of_the_pull * part;
    }

    // Tell whether a target's own size causes no more error than all sources together may.
    __device__ __forceinline__ bool is_small(real reach, real r2) const {
        r2 += eps2;
        if (!JUDGED || !(pull > 0)) return theta2 * r2 > 4 * reach * reach;
        return power_of(reach, r2) < together * part;
    }
};

// The lists of a target: their heads, and how many entries of each are still in shared memory.
struct Lists {
    Heads heads;
    int far, near, rest, seen;

    // Take room for all that is left at once, as all warps have to wait for each other there, and write it. Return
    // where it begins, none where it does not fit, or 0 where nothing is left.
    __device__ __forceinline__ int finish(const WarpRoom& room, const Pool& pool) {
        int words = 0;
        words += far > 0 ? far + 2 : 0;
        words += near > 0 ? near + 2 : 0;
        words += rest > 0 ? rest + 2 : 0;
        words += seen > 0 ? seen + 2 : 0;
        if (words == 0) return 0;
        const int taken = pool.take(words);
        int begin = taken;
        heads.far = write_segment(pool.entries, begin, room.far, far, heads.far);
        heads.near = write_segment(pool.entries, begin, room.near, near, heads.near);
        heads.rest = write_segment(pool.entries, begin, room.rest, rest, heads.rest);
        heads.seen = write_segment(pool.entries, begin, room.seen, seen, heads.seen);
        return taken;
    }
};

// What the parent of a target has left over for it: from entry `at` of a segment on.
struct Candidates {
    int segment, at;

    // Return this lane's next one, or -1.
    __device__ __forceinline__ int next(const int* entries) {
        const int count = entries[segment], own = at + lane_of_thread();
        int node = -1;
        if (own < count) node = entries[segment + 2 + own];
        at += 32;
        if (at >= count) {
            segment = entries[segment + 1];
            at = 0;
        }
        return node;
    }
};

// Find the nodes of a level: node 0 is the root, and those of each level follow those of the level above. Return false
// if there are none.
__device__ __forceinline__ bool find_level(int level, const int* __restrict__ totals, int capacity, int& first,
                                           int& end) {
    first = 0;
    end = 1;
    for (int above = 0; above < level; ++above) {
        const int here = totals[above];
        if (here == 0 || here > capacity - end) return false;
        first = end;
        end += here;
    }
    return true;
}

// Tell whether two leaves have few pairs of bodies. Neither count is above `few_pairs` where their product is not; that
// of large ones would not fit.
__device__ __forceinline__ bool have_few_pairs(const Link& first, const Link& other) {
    return first.count <= few_pairs && other.count <= few_pairs && first.count * other.count <= few_pairs;
}

// Return the squared distance of the nearest body of a leaf.
__device__ __forceinline__ real nearest_body(const Link& leaf, const Body* __restrict__ sorted, const Body& source) {
    real nearest2 = static_cast<real>(3e38);
    for (int k = leaf.begin; k < leaf.begin + leaf.count; ++k) {
        nearest2 = min(nearest2, squared_distance(sorted[k], source));
    }
    return nearest2;
}

// A target, or the source that a lane compares with it; `size` is that as a source.
struct Compared {
    int node;
    Body centre;
    Link link;
    real size;
};

// Compare a target with the source that each lane has, if that is `valid`: put it on one of the lists, or its children
// among what is looked at next.
__device__ __forceinline__ void compare(Lists& lists, int& top, WarpRoom& room, const Pool& pool, const Judge& judge,
                                        const Compared& target, const Compared& source, bool valid,
                                        const Body* __restrict__ sorted) {
    const Link &own = target.link, &other = source.link;
    const bool leaf = own.count > 0, other_leaf = other.count > 0;
    const real mass = source.centre.mass, r2 = squared_distance(target.centre, source.centre);
    const bool beside_leaf = leaf && 2 * other.reach < own.reach;
    bool is_far = valid && judge.accepts(mass, own.reach + source.size, own.reach + other.reach, r2) &&
                  (!beside_leaf || judge.is_small(own.reach, r2));
    if (leaf && other_leaf && have_few_pairs(own, other)) is_far = false;
    bool is_seen = valid && beside_leaf && !is_far && (!other_leaf || other.count > few_bodies);
    if (lanes_where(is_seen)) {
        const real nearest2 = nearest_body(own, sorted, source.centre);
        is_seen = is_seen && judge.accepts(mass, source.size, other.reach, nearest2);
    }
    const bool is_near = valid && leaf && other_leaf && !is_far && !is_seen;
    const bool open = valid && !is_far && !is_seen && !is_near;
    const bool divided = open && !other_leaf && (leaf || other.reach >= own.reach);
    const int node = source.node;
    append(room.far, lists.far, lists.heads.far, is_far, node, pool);
    append(room.near, lists.near, lists.heads.near, is_near, node, pool);
    append(room.rest, lists.rest, lists.heads.rest, open && !divided, node, pool);
    append(room.seen, lists.seen, lists.heads.seen, is_seen, node, pool);
    room.stack.push(top, divided, other.begin, other.count);
    __syncwarp();
}

extern "C" __global__ void __launch_bounds__(P)
    fast_multipole_pairs(const Body* __restrict__ sorted, const Body* __restrict__ centres,
                         const Link* __restrict__ links, const Bound* __restrict__ bounds,
                         const int* __restrict__ totals, const Cube* __restrict__ cube, const real* __restrict__ sizes,
                         const real* __restrict__ least, Heads* __restrict__ heads, int* __restrict__ entries,
                         Used* __restrict__ used, int capacity, int pool_capacity, int level, real eps2, real theta2,
                         real part, int* again, int pass) {
    if (pass > 0 && *again == 0) return;
    used += pass;
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    int first, end;
    if (!find_level(level, totals, capacity, first, end)) return;
    if (level == 0 && blockIdx.x == 0 && threadIdx.x == 0) {
        // The candidates of the root: the root.
        entries[0] = 1;
        entries[1] = none;
        entries[2] = 0;
        *used = 4;
        // What a second pass took in an earlier evaluation, and what a walk met.
        for (int k = 1; pass == 0 && k < 4; ++k) used[k] = 0;
    }
    __syncwarp();
    const Pool pool = {entries, used, pool_capacity};
    Used used_before = 0;  // words of the pool, when this warp last read how many or took some
    const real shortest = shortest_in(*cube);
    for (int target = first + blockIdx.x * (P / 32) + threadIdx.x / 32; target < end; target += gridDim.x * (P / 32)) {
        // Read once, and on its way while the warp finds its candidates.
        if (JUDGED && pass == 0 && used_before == 0) used_before = pool.read();
        const Compared own = {target, centres[target], links[target]};
        Lists lists = {{none, none, none, none}, 0, 0, 0, 0};
        int top = 0;
        Candidates candidates = {level == 0 ? 0 : heads[bounds[target].parent].rest, 0};
        const bool judged = JUDGED && (pass > 0 || pool.has_room(used_before));
        const Judge judge = {judged ? part * least[target] : 0, part, eps2, theta2, shortest * shortest};
        while (true) {
            int taken;
            if (top > 0) {
                taken = room.stack.pop(top);
            } else {
                if (candidates.segment == none) break;
                taken = candidates.next(entries);
            }
            const int node = max(taken, 0);
            const Compared source = {node, centres[node], links[node], JUDGED ? sizes[node] : 0};
            compare(lists, top, room, pool, judge, own, source, taken >= 0, sorted);
        }
        const int begin = lists.finish(room, pool);
        if (begin != 0) used_before = pool.before(begin);
        if (lane_of_thread() == 0) {
            heads[target] = lists.heads;
            if (JUDGED && !judged) *again = 1;
        }
        __syncwarp();
    }
}
#endif

#if defined(KERNEL_fast_multipole_far) || defined(KERNEL_fast_multipole_walk)
// Rows of a source in shared memory: an odd number, so that all banks are busy when each lane reads its own source.
constexpr int pitch = multipole_rows | 1;

// Bring the multipoles of each lane's node, those of a few nodes in a step, neighbouring lanes reading neighbouring
// rows. Lanes too many for whole nodes do what others do.
__device__ __forceinline__ void bring(Row* staged, const Row* __restrict__ rows, int node) {
    constexpr int nodes = 32 / multipole_rows, steps = (32 + nodes - 1) / nodes;
    const int lane = threadIdx.x % 32, own = min(lane / multipole_rows, nodes - 1), row = lane % multipole_rows;
    Row brought[steps];
#pragma unroll
    for (int k = 0; k < steps; ++k) {
        const int of = __shfl_sync(whole_warp, node, min(k * nodes + own, 31));
        brought[k] = rows[of * multipole_rows + row];
    }
    __syncwarp();
#pragma unroll
    for (int k = 0; k < steps; ++k) staged[min(k * nodes + own, 31) * pitch + row] = brought[k];
    __syncwarp();
}

// The unit of lengths of the expansions; that of masses is the mass of all bodies. `pull` takes their pulls to those of
// bodies.
struct Units {
    real unit, eps2, inverse_mass, pull;

    __device__ __forceinline__ Units(real unit, real eps2, real mass)
        : unit(unit), eps2(eps2 * unit * unit), inverse_mass(mass > 0 ? 1 / mass : 0), pull(mass * unit * unit) {}

    // Compute the derivatives of the potential of a source of this mass.
    __device__ __forceinline__ void derivatives_at(real (&d)[derivatives_kept], const Offset& to, real mass) const {
        derivatives(d, unit * to.x, unit * to.y, unit * to.z, eps2, mass * inverse_mass);
    }
};

// The sources of 32 lanes, in a warp's own part of shared memory.
struct Sources {
    Row rows[32 * pitch];
    Body centres[32];
    Rest rests[32];

    // Stage each lane's node.
    __device__ __forceinline__ void stage(const Row* __restrict__ all_rows, const Body* __restrict__ all_centres,
                                          const Rest* __restrict__ all_rests, int node) {
        bring(rows, all_rows, node);
        const int lane = lane_of_thread();
        centres[lane] = all_centres[node];
        rests[lane] = all_rests[node];
        __syncwarp();
    }

    // Add the pull of the node of lane k on a body, in the units of the expansions.
    __device__ __forceinline__ void add(Sums& sums, int k, const Body& own, const Units& units) const {
        const Body source = centres[k];
        real d[derivatives_kept];
        units.derivatives_at(d, way(source, rests[k], own, Rest{}), source.mass);
        add_pull(sums, rows + k * pitch, d);
    }
};

#endif

#ifdef KERNEL_fast_multipole_far
constexpr int padded = (locals + 31) / 32 * 32;

// Add up over the lanes: in each step a lane keeps half of its coefficients, from the number returned on, and gives the
// other half away.
template <int HALF, int APART>
__device__ __forceinline__ int add_up(real (&all)[padded], int lane) {
    const bool upper = lane & APART;
#pragma unroll
    for (int k = 0; k < HALF; ++k) {
        const real kept = upper ? all[k + HALF] : all[k], given = upper ? all[k] : all[k + HALF];
        all[k] = kept + __shfl_xor_sync(whole_warp, given, APART);
    }
    int begin = upper ? HALF : 0;
    if constexpr (APART > 1) begin += add_up<HALF / 2, APART / 2>(all, lane);
    return begin;
}

// Compute what the cells that a leaf's bodies see act on each of them. The threads of `width` lanes have a body each,
// and every part of the warp takes a share of the cells.
__device__ __forceinline__ void act_on_bodies(const Link& leaf, int first_segment, const Body* __restrict__ sorted,
                                              const Body* __restrict__ centres, const Rest* __restrict__ rests,
                                              const Row* __restrict__ rows, const int* __restrict__ pool,
                                              const long long* __restrict__ order, Sums* __restrict__ accelerations,
                                              const Units& units, Sources& room) {
    const int lane = threadIdx.x % 32;
    for (int done = 0; done < leaf.count; done += 32) {
        const int count = min(32, leaf.count - done);
        const int width = count > 16 ? 32 : (count > 8 ? 16 : (count > 4 ? 8 : (count > 2 ? 4 : 2)));
        const int part = lane / width, parts = 32 / width, number = lane % width;
        const int k = leaf.begin + done + min(number, count - 1);
        const Body own = sorted[k];
        Sums sums = {};
        for (int segment = first_segment; segment != none; segment = pool[segment + 1]) {
            const int cells = pool[segment];
            for (int at = 0; at < cells; at += 32) {
                const int node = pool[segment + 2 + min(at + lane, cells - 1)];
                room.stage(rows, centres, rests, node);
                const int here = min(32, cells - at);
#pragma unroll 1
                for (int cell = part; cell < here; cell += parts) room.add(sums, cell, own, units);
                __syncwarp();
            }
        }
        sums.ax = strided_sum(sums.ax, width);
        sums.ay = strided_sum(sums.ay, width);
        sums.az = strided_sum(sums.az, width);
        if (part == 0 && number < count) {
            sums.ax *= units.pull;
            sums.ay *= units.pull;
            sums.az *= units.pull;
            accelerations[order[k]] = sums;
        }
    }
}

// Blocks that a multiprocessor holds at once: as many as the registers for all coefficients allow.
constexpr int held = (ORDER == 3 ? 7 : (ORDER == 4 ? 5 : (ORDER == 5 ? 3 : 2))) * 128 / P;

extern "C" __global__ void __launch_bounds__(P, held)
    fast_multipole_far(const Body* __restrict__ sorted, const Body* __restrict__ centres,
                       const Rest* __restrict__ rests, const Link* __restrict__ links, const Row* __restrict__ rows,
                       const int* __restrict__ tree, const Cube* __restrict__ cube, const Heads* __restrict__ heads,
                       const int* __restrict__ pool, const Used* __restrict__ used, const long long* __restrict__ order,
                       real* __restrict__ expansions, Sums* __restrict__ accelerations, int pool_capacity, real eps2,
                       const int* __restrict__ again, int pass) {
    if (used[pass] > pool_capacity || (pass > 0 && *again == 0)) return;
    __shared__ Sources rooms[P / 32];
    Sources& room = rooms[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, nodes = *tree;
    const Units units(unit_of(*cube), eps2, centres[0].mass);
    for (int target = blockIdx.x * (P / 32) + threadIdx.x / 32; target < nodes; target += gridDim.x * (P / 32)) {
        const Heads lists = heads[target];
        if (lists.seen != none) {
            act_on_bodies(links[target], lists.seen, sorted, centres, rests, rows, pool, order, accelerations, units,
                          room);
        }
        int segment = lists.far;
        if (segment == none) continue;
        const Body centre = centres[target];
        const Rest rest = rests[target];
        real sums[locals] = {};
        while (segment != none) {
            const int count = pool[segment], next = pool[segment + 1];
            int node = pool[segment + 2 + min(lane, count - 1)];
#pragma unroll 1
            for (int done = 0; done < count; done += 32) {
                const Body source = centres[node];
                const Offset to = way(source, rests[node], centre, rest);
                bring(room.rows, rows, node);
                // The node after this one is on its way in the meantime.
                node = pool[segment + 2 + min(done + 32 + lane, count - 1)];
                if (done + lane < count) {
                    real d[derivatives_kept];
                    units.derivatives_at(d, to, source.mass);
                    add_far(sums, room.rows + lane * pitch, d);
                }
                __syncwarp();
            }
            segment = next;
        }
        real all[padded];
#pragma unroll
        for (int k = 0; k < padded; ++k) all[k] = k < locals ? sums[min(k, locals - 1)] : 0;
        const int begin = add_up<padded / 2, 16>(all, lane);
#pragma unroll
        for (int k = 0; k < padded / 32; ++k) {
            if (begin + k < 4 * local_rows) expansions[target * (4 * local_rows) + begin + k] = all[k];
        }
    }
}
#endif

#ifdef KERNEL_fast_multipole_down
extern "C" __global__ void __launch_bounds__(P)
    fast_multipole_down(const Body* __restrict__ centres, const Rest* __restrict__ rests,
                        const Bound* __restrict__ bounds, const int* __restrict__ tree, const Cube* __restrict__ cube,
                        const Heads* __restrict__ heads, const Used* __restrict__ used, Row* expansions,
                        int pool_capacity, const int* __restrict__ again, int pass) {
    if (used[pass] > pool_capacity || (pass > 0 && *again == 0)) return;
    const int nodes = *tree;
    const real unit = unit_of(*cube);
    for (int leaf = blockIdx.x * P + threadIdx.x; leaf < nodes; leaf += gridDim.x * P) {
        const Bound bound = bounds[leaf];
        if (bound.bodies == 0) continue;
        // Those around the leaf that have an expansion, the leaf's own and above.
        int around[levels + 1], steps = 0;
        for (int node = leaf; node >= 0; node = bounds[node].parent) {
            if (heads[node].far != none) around[steps++] = node;
        }
        real sums[locals] = {};
        Body centre = {};
        Rest rest = {};
#pragma unroll 1
        while (steps > 0) {
            const int node = around[--steps];
            const Offset next = way(centre, rest, centres[node], rests[node]);
            shift(sums, unit * next.x, unit * next.y, unit * next.z);
            centre = centres[node];
            rest = rests[node];
#pragma unroll
            for (int k = 0; k < local_rows; ++k) {
                const Row row = expansions[node * local_rows + k];
#pragma unroll
                for (int word = 0; word < 4; ++word) {
                    if (4 * k + word < locals) sums[min(4 * k + word, locals - 1)] += row.of[word];
                }
            }
        }
        const Offset end = way(centre, rest, centres[leaf], rests[leaf]);
        shift(sums, unit * end.x, unit * end.y, unit * end.z);
#pragma unroll
        for (int k = 0; k < local_rows; ++k) expansions[leaf * local_rows + k] = row_of(sums, k);
    }
}
#endif

#ifdef KERNEL_fast_multipole_least
// Find the least acceleration of every cell anew. What is not negative has the order of its bits.
extern "C" __global__ void __launch_bounds__(BLOCK)
    fast_multipole_least(const Bound* __restrict__ bounds, const int* __restrict__ tree,
                         const long long* __restrict__ order, const real* __restrict__ last, real* found,
                         const int* __restrict__ again) {
    if (*again == 0) return;
    const int nodes = *tree;
    for (int leaf = blockIdx.x * BLOCK + threadIdx.x; leaf < nodes; leaf += gridDim.x * BLOCK) {
        const Bound bound = bounds[leaf];
        if (bound.bodies == 0) continue;
        real slowest = static_cast<real>(3e38);
        for (int k = bound.first; k < bound.first + bound.bodies; ++k) slowest = min(slowest, last[order[k]]);
        for (int node = leaf; node >= 0; node = bounds[node].parent) {
            atomicMin(reinterpret_cast<int*>(found + node), __float_as_int(slowest));
        }
    }
}
#endif

#if defined(KERNEL_fast_multipole) || defined(KERNEL_fast_multipole_walk)
// Add the pulls of the bodies from `begin` on, of `count` ranges that the lanes have one of each, staged 32 at a time;
// every part of the warp takes a share of them.
__device__ __forceinline__ void add_ranges(Sums& sums, const Body& own, const Body* __restrict__ sorted, Body* staged,
                                           int begin, int count, int part, int parts, real eps2) {
    const int lane = lane_of_thread();
    const BodyRanges ranges(begin, count);
    for (int done = 0; done < ranges.all; done += 32) {
        staged[lane] = ranges.at(sorted, done + lane);
        __syncwarp();
        const int here = min(32, ranges.all - done);
#pragma unroll 4
        for (int other = part; other < here; other += parts) interact(sums, own, staged[other], eps2);
        __syncwarp();
    }
}

#endif

#ifdef KERNEL_fast_multipole
// What the kernel reads, and writes the accelerations to.
struct Near {
    const Body *sorted, *centres;
    const Rest* rests;
    const Link* links;
    const Heads* heads;
    const int* pool;
    const Row* expansions;
    const long long* order;
    real* last;
    const real* least;
    Sums* accelerations;
    int* again;
    real unit, eps2;
    int pass;
};

// The body of a lane: the threads of `width` lanes have one each, and every part of the warp has the same ones.
struct OfLane {
    Body body;
    int part, parts;
};

// Sum up the pulls of the bodies of near leaves, of which every warp of the block takes a share.
template <int WORKERS>
__device__ __forceinline__ Sums pulls_of_near(const Near& given, int target, const OfLane& own, Body* staged,
                                              int worker) {
    const int lane = threadIdx.x % 32;
    Sums sums = {};
    for (int segment = given.heads[target].near; segment != none; segment = given.pool[segment + 1]) {
        const int leaves = given.pool[segment];
        for (int at = 32 * worker; at < leaves; at += 32 * WORKERS) {
            Link near = {};
            if (at + lane < leaves) near = given.links[given.pool[segment + 2 + at + lane]];
            add_ranges(sums, own.body, given.sorted, staged, near.begin, near.count, own.part, own.parts, given.eps2);
        }
    }
    return sums;
}

// Add up what the warps of a block have left in `of_warps`; only the first of them gets all.
template <int WORKERS>
__device__ __forceinline__ void add_workers(Sums& sums, Sums (*of_warps)[32], int worker) {
    const int lane = threadIdx.x % 32;
    of_warps[worker][lane] = sums;
    __syncthreads();
    if (worker == 0) {
        for (int other = 1; other < WORKERS; ++other) {
            const Sums share = of_warps[other][lane];
            sums.ax += share.ax;
            sums.ay += share.ay;
            sums.az += share.az;
        }
    }
    __syncthreads();
}

// Write the acceleration of a body, with what cells do to it by themselves.
__device__ __forceinline__ void write_acceleration(const Near& given, int target, int k, Sums sums) {
    const int home = static_cast<int>(given.order[k]);
    if (given.heads[target].seen != none) {
        const Sums of_cells = given.accelerations[home];
        sums.ax += of_cells.ax;
        sums.ay += of_cells.ay;
        sums.az += of_cells.az;
    }
    given.accelerations[home] = sums;
#if JUDGED
    const real length = sqrt(sums.ax * sums.ax + (sums.ay * sums.ay + sums.az * sums.az));
    given.last[home] = length;
    // The cells were judged by an acceleration that these bodies do not have.
    const real assumed = given.least[target];
    if (given.pass == 0 && (2 * length < assumed || (length > 0 && !(assumed > 0)))) *given.again = 1;
#endif
}

// Sum up the pulls on the bodies of a leaf, of which WORKERS warps of the block take a share of the near leaves each.
template <int WORKERS>
__device__ __forceinline__ void pull_leaf(const Near& given, int target, const Bound& leaf, Body* staged,
                                          Sums (*of_warps)[32]) {
    const int lane = threadIdx.x % 32, worker = WORKERS == 1 ? 0 : threadIdx.x / 32;
    for (int done = 0; done < leaf.bodies; done += 32) {
        const int count = min(32, leaf.bodies - done);
        const int width = count > 16 ? 32 : (count > 8 ? 16 : (count > 4 ? 8 : 4));
        const int number = lane % width, k = leaf.first + done + min(number, count - 1);
        const OfLane own = {given.sorted[k], lane / width, 32 / width};
        Sums sums = pulls_of_near<WORKERS>(given, target, own, staged, worker);
        sums.ax = strided_sum(sums.ax, width);
        sums.ay = strided_sum(sums.ay, width);
        sums.az = strided_sum(sums.az, width);
        if (WORKERS > 1) {
            add_workers<WORKERS>(sums, of_warps, worker);
            if (worker > 0) continue;
        }
        if (own.part > 0 || number >= count) continue;
        const Offset at = way(given.centres[target], given.rests[target], own.body, Rest{});
        const real unit = given.unit;
        add_field(sums, given.expansions + target * local_rows, unit * at.x, unit * at.y, unit * at.z,
                  given.centres[0].mass * unit * unit);
        write_acceleration(given, target, k, sums);
    }
}

// A list of more than one segment is long: a warp would work it off when all others have long ended.
__device__ __forceinline__ bool is_long(const Near& given, int target) {
    const int segment = given.heads[target].near;
    return segment != none && given.pool[segment + 1] != none;
}

extern "C" __global__ void __launch_bounds__(P, 1024 / P)
    fast_multipole(const Body* __restrict__ sorted, const Body* __restrict__ centres, const Rest* __restrict__ rests,
                   const Link* __restrict__ links, const Bound* __restrict__ bounds, const int* __restrict__ tree,
                   const Cube* __restrict__ cube, const Heads* __restrict__ heads, const int* __restrict__ pool,
                   const Used* __restrict__ used, const Row* __restrict__ expansions,
                   const long long* __restrict__ order, real* __restrict__ last, const real* __restrict__ least,
                   Sums* __restrict__ accelerations, int pool_capacity, real eps2, int* again, int pass) {
    if (pass > 0 && *again == 0) return;
    if (used[pass] > pool_capacity) {
        if (pass == 0 && blockIdx.x == 0 && threadIdx.x == 0) *again = 0;  // the walk does all
        return;
    }
    constexpr int warps = P / 32;
    __shared__ Body rooms[warps][32];
    __shared__ Sums of_warps[warps][32];
    __shared__ unsigned long_ones[warps];
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, nodes = *tree;
    const Near given = {sorted, centres, rests,         links, heads,          pool, expansions, order,
                        last,   least,   accelerations, again, unit_of(*cube), eps2, pass};
    // Leaves with long lists, by all warps of a block together; those that follow each other in different blocks.
    const int blocks = gridDim.x, own_targets = (nodes + blocks - 1) / blocks;
    for (int first = 0; warps > 1 && first < own_targets; first += P) {
        const int target = (first + threadIdx.x) * blocks + blockIdx.x;
        const unsigned found = lanes_where(target < nodes && is_long(given, target));
        if (lane == 0) long_ones[warp] = found;
        __syncthreads();
        for (int of = 0; of < warps; ++of) {
            for (unsigned left = long_ones[of]; left; left &= left - 1) {
                const int found_target = (first + 32 * of + first_of(left)) * blocks + blockIdx.x;
                pull_leaf<warps>(given, found_target, bounds[found_target], rooms[warp], of_warps);
            }
        }
        __syncthreads();
    }
    for (int target = blockIdx.x * warps + warp; target < nodes; target += blocks * warps) {
        const Bound leaf = bounds[target];
        if (leaf.bodies == 0 || (warps > 1 && is_long(given, target))) continue;
        pull_leaf<1>(given, target, leaf, rooms[warp], of_warps);
    }
}
#endif

#ifdef KERNEL_fast_multipole_walk
// A warp's own part of shared memory.
struct WarpRoom {
    NodeStack stack;
    Sources sources;
    Body bodies[32], staged[32];
};

// The error of a source that is accepted as a part of its own pull, in units of `part`. Errors of many sources partly
// cancel.
constexpr real of_own_pull = 8;

// What the kernel reads of the tree, and how it judges sources.
struct Walked {
    const Body *sorted, *centres;
    const Rest* rests;
    const Link* links;
    const Row* rows;
    const real* sizes;
    Units units;
    real eps2, shortest2, theta2, part;

    // Tell whether a source acts on all of the warp's bodies by its multipoles: where only its own size matters, as for
    // a leaf's bodies in pairs, but no acceleration is known.
    __device__ __forceinline__ bool is_far(const Link& source, int node, const Body* bodies, int count) const {
        real nearest2 = static_cast<real>(3e38);
        for (int k = 0; k < count; ++k) nearest2 = min(nearest2, squared_distance(bodies[k], centres[node]));
        const real r2 = nearest2 + eps2;
        if (!(theta2 * r2 > source.reach * source.reach && r2 > shortest2)) return false;
        return !JUDGED || power_of(sizes[node], r2) < of_own_pull * part;
    }
};

// Add the pulls of the nodes of those lanes that `far` has, in the units of the expansions.
__device__ __forceinline__ void add_nodes(Sums& sums, const Walked& walked, Sources& sources, const Body& own, int node,
                                          unsigned far) {
    sources.stage(walked.rows, walked.centres, walked.rests, node);
#pragma unroll 1
    for (unsigned left = far; left; left &= left - 1) sources.add(sums, first_of(left), own, walked.units);
    __syncwarp();
}

// Sum up what the tree does to 32 bodies, of which each lane has its own, and add how many bodies and cells each met.
// Rounding errors grow with the number of terms of a sum: those of a step are summed up by themselves.
__device__ __forceinline__ Sums walk(const Walked& walked, WarpRoom& room, const Body& own, int count, Used& bodies,
                                     Used& cells) {
    const real pull = walked.units.pull;
    Sums sums = {};
    int top = room.stack.begin(0);
    while (top > 0) {
        const int taken = room.stack.pop(top), node = max(taken, 0);
        const Link link = walked.links[node];
        const bool few = link.count > 0 && link.count <= few_bodies;
        const bool is_far = taken >= 0 && !few && walked.is_far(link, node, room.bodies, count);
        const bool is_near = taken >= 0 && !is_far && link.count > 0;
        const unsigned far = lanes_where(is_far);
        Sums of_bodies = {}, of_cells = {};
        if (far) add_nodes(of_cells, walked, room.sources, own, node, far);
        const int near = is_near ? link.count : 0;
        if (lanes_where(is_near)) {
            add_ranges(of_bodies, own, walked.sorted, room.staged, link.begin, near, 0, 1, walked.eps2);
        }
        sums.ax += of_bodies.ax + pull * of_cells.ax;
        sums.ay += of_bodies.ay + pull * of_cells.ay;
        sums.az += of_bodies.az + pull * of_cells.az;
        bodies += warp_sum(near);
        cells += __popc(far);
        room.stack.push(top, taken >= 0 && !is_far && link.count < 0, link.begin, link.count);
        __syncwarp();
    }
    return sums;
}

// Where lists did not fit into the pool: walk the tree without any. used[2] and used[3] count the bodies and cells that
// all bodies met.
extern "C" __global__ void __launch_bounds__(P)
    fast_multipole_walk(const Body* __restrict__ sorted, const Body* __restrict__ centres,
                        const Rest* __restrict__ rests, const Link* __restrict__ links, const Row* __restrict__ rows,
                        const real* __restrict__ sizes, const Cube* __restrict__ cube, Used* used,
                        const long long* __restrict__ order, real* __restrict__ last, Sums* __restrict__ accelerations,
                        int pool_capacity, int n, real eps2, real theta2, real part) {
    if (used[0] <= pool_capacity && used[1] <= pool_capacity) return;
    __shared__ WarpRoom rooms[P / 32];
    WarpRoom& room = rooms[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const real shortest = shortest_in(*cube);
    const Units units(unit_of(*cube), eps2, centres[0].mass);
    const Walked walked = {sorted, centres, rests, links, rows, sizes, units, eps2, shortest * shortest, theta2, part};
    Used bodies = 0, cells = 0;
    for (int first = 32 * (blockIdx.x * (P / 32) + threadIdx.x / 32); first < n; first += 32 * gridDim.x * (P / 32)) {
        const int count = min(32, n - first), k = first + min(lane, count - 1);
        const Body own = sorted[k];
        room.bodies[lane] = own;
        __syncwarp();
        Used met_bodies = 0, met_cells = 0;
        const Sums sums = walk(walked, room, own, count, met_bodies, met_cells);
        bodies += count * met_bodies;
        cells += count * met_cells;
        if (lane >= count) continue;
        const int home = static_cast<int>(order[k]);
        accelerations[home] = sums;
        if (JUDGED) last[home] = sqrt(sums.ax * sums.ax + (sums.ay * sums.ay + sums.az * sums.az));
    }
    if (lane == 0 && bodies + cells > 0) {
        atomicAdd(used + 2, bodies);
        atomicAdd(used + 3, cells);
    }
}
#endif
