// Compute each pair once and add it to both bodies with opposite signs (Newton's third law).
//
// Against register_blocked: a pair takes one distance and one inverse square root for two interactions, 17 instructions
// instead of 26. The difficulty is to add up the sums of j, which many threads meet. A warp keeps a block of 32 * R
// bodies and their sums in registers, R per lane. Partners come in groups of 32, one per lane, and travel around the
// warp: in each of 32 steps every lane pairs its R bodies with its present partner, adds to the sums of both, and
// passes the partner's sums to the next lane. After 32 steps each partner has met all bodies of the block, and one
// addition in global memory brings its sums home. Expected: (17 + t / R) / 2 issue slots per interaction, where t is
// what travelling takes per step: 7 shuffles, or 3 shuffles and one load where positions are in shared memory (SHARED
// 1).
//
// Blocks form a ring, and each block pairs with the half of the ring that follows it, so all blocks have the same work.
// Within its own block it computes every directed pair and keeps one side only. The work of a block is divided into
// `parts`, one warp each. In shared memory each partner is stored twice, so that a step is a constant offset; a row
// begins with the mass, for the register banks, as in register_blocked.
//
// EQUAL 1: a warp first checks whether all its bodies have one mass, and all its partners. If so, masses are multiplied
// in at the end, and a pair takes 15 instructions. If not, it does the same as with EQUAL 0.
//
// DETERMINISTIC 0: sums leave by atomic additions, to places that a first kernel (symmetric_clear) clears. GATHER 1:
// the warps of a CUDA block, which then have the same bodies, first add up their sums in shared memory. The rounding
// error grows with the number of additions to one place, so blocks use `copies` places per body in turn, which a last
// kernel (symmetric_join) adds up. The additions come in any order, so two launches differ in their last bits.
// DETERMINISTIC 1: each warp writes its sums to places of its own, ours[block][part][32 * R] and theirs[block][group -
// first][32], and a second kernel (symmetric_add) adds them in a fixed order. A launch handles the groups first <=
// group < last of each ring, so that `theirs` need not hold all of them.
//
// A lane beyond the last body takes one so far away that its interactions are exactly zero, and drops its own sums.
// Bodies have to be within 1e18 of the origin (float64: 1e149). UNROLL: steps per iteration, and the shortest part.
// A kernel is compiled where KERNEL_ and its name are defined.
//
// Global loads per body: n / (64 * R) of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows
// each.
#include "warp.cuh"

static_assert(32 % UNROLL == 0, "unroll has to divide the 32 steps of a group");

constexpr int units_of_group = 32 / UNROLL;  // a unit of work is UNROLL steps
constexpr int width = 32 * R;                // bodies of a block

// Farther away than any body, but so near that its square is finite.
constexpr real far_away = static_cast<real>(sizeof(real) == 4 ? 4e18 : 1e150);

struct __align__(16) Row {
    real mass, x, y, z;
};

// The empty assembly keeps the assembler from repeating the selection at every use.
__device__ __forceinline__ Body body_or_nobody(const Body* __restrict__ bodies, int i, int n) {
    Body body = bodies[min(i, n - 1)];
    if (i >= n) body.x = far_away;
#ifdef FLOAT64
    asm volatile("" : "+d"(body.x));
#else
    asm volatile("" : "+f"(body.x));
#endif
    return body;
}

#include "add_sums.cuh"
#include "begin_of.cuh"

// Return the number of groups that a block pairs with: its own R and those of the blocks in the half of the ring that
// follows. Where the number of blocks is even, two blocks are opposite each other: the first of them has the pair.
__device__ __forceinline__ int ring_length(int block, int blocks) {
    return R * (1 + (blocks - 1) / 2 + (blocks % 2 == 0 && block < blocks / 2 ? 1 : 0));
}

// Add one pair to the sums of both bodies; without masses where EQUAL_NOW. PLAIN has the operations in the order in
// which one would write them, for readers: gravbench does not define it.
#ifdef PLAIN
template <bool EQUAL_NOW>
__device__ __forceinline__ void pair(Sums& of_i, Sums& of_j, const Body& i, const Body& j, real eps2) {
    const real dx = j.x - i.x;
    const real dy = j.y - i.y;
    const real dz = j.z - i.z;
    const real inverse = inverse_sqrt(eps2 + dx * dx + dy * dy + dz * dz);
    const real cube = inverse * inverse * inverse;
    const real on_i = EQUAL_NOW ? cube : cube * j.mass;
    const real on_j = EQUAL_NOW ? cube : cube * i.mass;
    of_i.ax += on_i * dx;
    of_i.ay += on_i * dy;
    of_i.az += on_i * dz;
    of_j.ax -= on_j * dx;
    of_j.ay -= on_j * dy;
    of_j.az -= on_j * dz;
}

// Which of the lane's own R bodies is paired as number `turn` in a step.
__device__ constexpr int body_of_turn(int turn) {
    return turn;
}
#else
// The same in other orders. The order of the operations, and that of a lane's own bodies (`body_of_turn`), decides
// which registers the assembler takes and how it orders its instructions, not how many there are: PLAIN has as many of
// each kind. These orders were the fastest of several hundred on an H200, with NVRTC 13.0.
template <bool EQUAL_NOW>
__device__ __forceinline__ void pair(Sums& of_i, Sums& of_j, const Body& i, const Body& j, real eps2) {
#if EQUAL
    const real dz = j.z - i.z;
    const real dy = j.y - i.y;
    const real dx = j.x - i.x;
    const real inverse = inverse_sqrt(dz * dz + (dy * dy + (dx * dx + eps2)));
    const real cube = inverse * inverse * inverse;
    const real on_i = EQUAL_NOW ? cube : cube * j.mass;
    const real on_j = EQUAL_NOW ? cube : cube * i.mass;
    of_j.ax -= on_j * dx;
    of_i.ay += on_i * dy;
    of_j.ay -= on_j * dy;
    of_i.az += on_i * dz;
    of_j.az -= on_j * dz;
    of_i.ax += on_i * dx;
#else
    const real dz = i.z - j.z;
    const real dy = i.y - j.y;
    const real dx = i.x - j.x;
    const real inverse = inverse_sqrt(dx * dx + (dz * dz + (dy * dy + eps2)));
    const real cube = inverse * inverse * inverse;
    const real on_j = cube * i.mass;
    const real on_i = cube * j.mass;
    of_i.ax -= on_i * dx;
    of_i.ay -= on_i * dy;
    of_i.az -= on_i * dz;
    of_j.az += on_j * dz;
    of_j.ay += on_j * dy;
    of_j.ax += on_j * dx;
#endif
}

// The same, as a permutation of 0 ... R - 1: halves in turn (0, R / 2, 1, ...), or every third body (0, 3, 6, ...).
__device__ constexpr int body_of_turn(int turn) {
    return EQUAL ? (R % 2 == 0 ? turn % 2 * (R / 2) + turn / 2 : turn) : (R % 3 != 0 ? turn * 3 % R : turn);
}
#endif

__device__ __forceinline__ void scale(Sums& sums, real mass) {
    sums.ax *= mass;
    sums.ay *= mass;
    sums.az *= mass;
}

// Take UNROLL steps: in each, the lane's partner `j` meets its R bodies, and then the lane passes the partner's sums to
// the lane before it. The partner goes the same way, or is read from its `place` in shared memory, one row further on
// in each step.
template <bool EQUAL_NOW>
__device__ __forceinline__ void steps(Sums (&of_own)[R], Sums& of_j, const Body (&own)[R], Body& j, const Row* place,
                                      int next, real eps2) {
#pragma unroll
    for (int step = 0; step < UNROLL; ++step) {
#if SHARED
        const Row row = place[step];
        j = Body{row.x, row.y, row.z, row.mass};
#endif
#pragma unroll
        for (int turn = 0; turn < R; ++turn) {
            const int b = body_of_turn(turn);
            pair<EQUAL_NOW>(of_own[b], of_j, own[b], j, eps2);
        }
#if !SHARED
        j.x = broadcast(j.x, next);
        j.y = broadcast(j.y, next);
        j.z = broadcast(j.z, next);
        if (!EQUAL_NOW) j.mass = broadcast(j.mass, next);
#endif
        of_j.ax = broadcast(of_j.ax, next);
        of_j.ay = broadcast(of_j.ay, next);
        of_j.az = broadcast(of_j.az, next);
    }
}

#ifdef KERNEL_symmetric
extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    symmetric(const Body* __restrict__ bodies, Sums* __restrict__ sums, int n, real eps2, int parts, int first,
              int last, int copies, Sums* __restrict__ ours, Sums* __restrict__ theirs) {
#if GATHER && !DETERMINISTIC
    __shared__ Sums gathered[2][P];
#endif
#if SHARED
    __shared__ Row all_partners[P / 32][64];
    Row* const partners = all_partners[threadIdx.x / 32];
#endif
    const int lane = threadIdx.x % 32;
    // The same number in all lanes: from lane 0, so that the compiler knows it.
    const int warp = broadcast(blockIdx.x * (P / 32) + threadIdx.x / 32, 0);
    const int block = warp / parts;
    const int part = warp - block * parts;
    const int blocks = (n + width - 1) / width;
    if (block >= blocks) return;
#if !DETERMINISTIC
    Sums* const home = sums + static_cast<long long>(block % copies) * n;
#endif
    // In units of UNROLL steps; parts are whole groups where every group has one place for its sums.
    constexpr int grain = DETERMINISTIC ? units_of_group : 1;
    const int grains = (min(ring_length(block, blocks), last) - first) * (units_of_group / grain);
    int unit = first * units_of_group + begin_of(part, parts, grains) * grain;
    const int end = first * units_of_group + begin_of(part + 1, parts, grains) * grain;

    Body own[R];
    Sums of_own[R] = {};
#pragma unroll
    for (int b = 0; b < R; ++b) own[b] = body_or_nobody(bodies, block * width + b * 32 + lane, n);
    const int next = (lane + 1) % 32;
#if EQUAL
    const real mass = bodies[block * width].mass;
    int group = block * R + unit / units_of_group;
    if (group >= blocks * R) group -= blocks * R;
    const real partner_mass = bodies[min(group * 32, n - 1)].mass;
    bool equal = true;
#pragma unroll
    for (int b = 0; b < R; ++b) equal = equal && own[b].mass == mass;
    for (int ahead = unit / units_of_group; ahead * units_of_group < end; ++ahead) {
        equal = equal && bodies[min(group * 32 + lane, n - 1)].mass == partner_mass;
        if (++group == blocks * R) group = 0;
    }
    equal = __all_sync(whole_warp, equal);
#else
    constexpr bool equal = false;
    constexpr real mass = 1, partner_mass = 1;
#endif
    while (unit < end) {
        const int ahead = unit / units_of_group;
        const int first_unit = unit - ahead * units_of_group;
        const int end_unit = min(end - ahead * units_of_group, units_of_group);
        int group_to_meet = block * R + ahead;
        if (group_to_meet >= blocks * R) group_to_meet -= blocks * R;
        Body j = body_or_nobody(bodies, group_to_meet * 32 + (lane + (SHARED ? 0 : first_unit * UNROLL)) % 32, n);
        Sums of_j = {};
#if SHARED
        __syncwarp();
        partners[lane] = Row{j.mass, j.x, j.y, j.z};
        partners[lane + 32] = Row{j.mass, j.x, j.y, j.z};
        __syncwarp();
        const Row* place = partners + lane + first_unit * UNROLL;
#else
        const Row* place = nullptr;
#endif
        if (equal) {
#pragma unroll 1
            for (int unit_in_group = first_unit; unit_in_group < end_unit; ++unit_in_group, place += UNROLL)
                steps<true>(of_own, of_j, own, j, place, next, eps2);
            scale(of_j, mass);
        } else {
#pragma unroll 1
            for (int unit_in_group = first_unit; unit_in_group < end_unit; ++unit_in_group, place += UNROLL)
                steps<false>(of_own, of_j, own, j, place, next, eps2);
        }
        if (ahead >= R) {
#if DETERMINISTIC
            theirs[(static_cast<long long>(block) * (last - first) + ahead - first) * 32 + lane] = of_j;
#else
            const int k = group_to_meet * 32 + (lane + end_unit * UNROLL) % 32;
            if (k < n) add_atomically(home + k, of_j);
#endif
        }
        unit = (ahead + 1) * units_of_group;
    }
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (equal) scale(of_own[b], partner_mass);
#if DETERMINISTIC
        ours[(static_cast<long long>(block) * parts + part) * width + b * 32 + lane] = of_own[b];
#else
        const int i = block * width + b * 32 + lane;
#if GATHER
        gathered[b % 2][threadIdx.x] = of_own[b];
        __syncthreads();
        if (threadIdx.x / 32 != b % (P / 32)) continue;
        Sums total = {};
#pragma unroll
        for (int other = 0; other < P; other += 32) add(total, gathered[b % 2][other + lane]);
        if (i < n) add_atomically(home + i, total);
#else
        if (i < n) add_atomically(home + i, of_own[b]);
#endif
#endif
    }
}
#endif

#ifdef KERNEL_symmetric_add
extern "C" __global__ void __launch_bounds__(P)
    symmetric_add(Sums* __restrict__ accelerations, int n, int parts, int first, int last,
                  const Sums* __restrict__ ours, const Sums* __restrict__ theirs) {
    const int k = blockIdx.x * P + threadIdx.x;
    if (k >= n) return;
    const int blocks = (n + width - 1) / width;
    const int block = k / width;
    const int place = k % width;
    const int group = place / 32;
    Sums total = {};
    if (first > 0) total = accelerations[k];
#pragma unroll 4
    for (int part = 0; part < parts; ++part)
        add(total, ours[(static_cast<long long>(block) * parts + part) * width + place]);
    // The block `distance` places behind has met this group as number distance * R + group of its ring.
    const int nearest = max(1, (first - group + R - 1) / R);
    for (int distance = nearest; distance <= blocks / 2 && distance * R + group < last; ++distance) {
        const int ahead = distance * R + group;
        const int other = block >= distance ? block - distance : block - distance + blocks;
        if (ahead < ring_length(other, blocks))
            add(total, theirs[(static_cast<long long>(other) * (last - first) + ahead - first) * 32 + place % 32]);
    }
    accelerations[k] = total;
}
#endif

#ifdef KERNEL_symmetric_clear
extern "C" __global__ void __launch_bounds__(P) symmetric_clear(Sums* __restrict__ sums, int n, int copies) {
    const int i = blockIdx.x * P + threadIdx.x;
    for (int copy = 0; i < n && copy < copies; ++copy) sums[static_cast<long long>(copy) * n + i] = Sums{};
}
#endif

#ifdef KERNEL_symmetric_join
extern "C" __global__ void __launch_bounds__(P)
    symmetric_join(Sums* __restrict__ accelerations, const Sums* __restrict__ sums, int n, int copies) {
    const int i = blockIdx.x * P + threadIdx.x;
    Sums total = {};
    for (int copy = 0; i < n && copy < copies; ++copy) add(total, sums[static_cast<long long>(copy) * n + i]);
    if (i < n) accelerations[i] = total;
}
#endif
