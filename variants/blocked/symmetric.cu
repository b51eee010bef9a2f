// Count each pair once: what body j does to i, i does to j with the other sign (Newton's third law).
//
// Against register_blocked: a pair costs one distance and one inverse square root for two interactions, 17 instructions
// instead of 26. The trouble is who adds up for j, because many threads meet it. Here a warp keeps a block of 32 * R
// bodies and their sums in registers, R a lane; partners come in groups of 32, one a lane, and travel round the warp: in
// each of 32 steps every lane pairs its R bodies with the partner it has, adds to both, and hands the partner's sums to
// the next lane. After 32 steps each has met all, and one addition in global memory brings its sums home. Blocks stand
// in a ring and each pairs with the half of the ring that follows it, so all have the same work; with its own block it
// counts every directed pair and keeps only its own side. The work of a block is cut into `parts`, a warp each.
// Expected: (17 + travelling / R) / 2 issue slots an interaction, travelling being 7 shuffles a step, or 3 shuffles and
// one load where positions are kept in shared memory (SHARED 1), each partner twice so that a step is a constant offset.
//
// With EQUAL 1 a warp looks first whether its bodies all weigh the same, and its partners: masses are then multiplied in
// at the end, and a pair takes 15 instructions. Otherwise it does what EQUAL 0 does.
//
// Sums leave by atomic additions (DETERMINISTIC 0), which come in any order: two launches differ in the last bits. With
// DETERMINISTIC 1 every warp writes what it found to a place of its own, own[block][part][32 * R] and
// theirs[block][group - first][32], and a second kernel (symmetric_add) adds them in a fixed order; groups
// first <= group < last of each ring are done by one launch, so that `theirs` need not hold them all.
//
// A lane without a body takes one so far away that its pull is exactly zero, and keeps what it gets. UNROLL: steps in
// straight line, also the least that a part has. Loads from global memory a body: n / (64 * R) of 16 bytes.
// bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; each of n rows.
static_assert(32 % UNROLL == 0, "unroll has to divide the 32 steps of a group");

constexpr int turns = 32 / UNROLL;
constexpr int width = 32 * R;

// Further away than any body, and not so far that its square is infinite.
constexpr real far_away = static_cast<real>(sizeof(real) == 4 ? 4e18 : 1e150);

__device__ __forceinline__ Body body_or_nobody(const Body* __restrict__ bodies, int i, int n) {
    Body found = bodies[min(i, n - 1)];
    if (i >= n) found.x = far_away;
#ifdef FLOAT64
    asm volatile("" : "+d"(found.x));
#else
    asm volatile("" : "+f"(found.x));
#endif
    return found;
}

__device__ __forceinline__ void add_atomically(Sums* to, const Sums& sums) {
#if __CUDA_ARCH__ >= 900 && !defined(FLOAT64)
    atomicAdd(reinterpret_cast<float4*>(to), make_float4(sums.ax, sums.ay, sums.az, 0));
#else
    atomicAdd(&to->ax, sums.ax);
    atomicAdd(&to->ay, sums.ay);
    atomicAdd(&to->az, sums.az);
#endif
}

// Groups of the ring that follow a block's own: half of it; of two opposite blocks the first has the other.
__device__ __forceinline__ int ring_length(int block, int blocks) {
    return R * (1 + (blocks - 1) / 2 + (blocks % 2 == 0 && block < blocks / 2 ? 1 : 0));
}

// Add to the sums of i what j does to it, and to those of j what i does to it; without masses where EQUAL_NOW.
template <bool EQUAL_NOW>
__device__ __forceinline__ void pair(Sums& of_i, Sums& of_j, const Body& i, const Body& j, real eps2) {
    const real dx = j.x - i.x;
    const real dy = j.y - i.y;
    const real dz = j.z - i.z;
    const real inverse = inverse_sqrt(dx * dx + (dy * dy + (dz * dz + eps2)));
    const real cube = inverse * inverse * inverse;
    const real on_i = EQUAL_NOW ? cube : cube * j.mass;
    const real on_j = EQUAL_NOW ? cube : cube * i.mass;
    of_i.ax += on_i * dx;
    of_j.ax -= on_j * dx;
    of_j.ay -= on_j * dy;
    of_i.ay += on_i * dy;
    of_i.az += on_i * dz;
    of_j.az -= on_j * dz;
}

template <bool EQUAL_NOW>
__device__ __forceinline__ void steps(Sums (&of_own)[R], Sums& of_j, const Body (&own)[R], Body& j, const Body* place,
                                      int next, real eps2) {
#pragma unroll
    for (int step = 0; step < UNROLL; ++step) {
#if SHARED
        j = place[step];
#endif
#pragma unroll
        for (int b = 0; b < R; ++b) pair<EQUAL_NOW>(of_own[b], of_j, own[b], j, eps2);
#if !SHARED
        j.x = __shfl_sync(0xffffffff, j.x, next);
        j.y = __shfl_sync(0xffffffff, j.y, next);
        j.z = __shfl_sync(0xffffffff, j.z, next);
        if (!EQUAL_NOW) j.mass = __shfl_sync(0xffffffff, j.mass, next);
#endif
        of_j.ax = __shfl_sync(0xffffffff, of_j.ax, next);
        of_j.ay = __shfl_sync(0xffffffff, of_j.ay, next);
        of_j.az = __shfl_sync(0xffffffff, of_j.az, next);
    }
}

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    symmetric(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2, int parts) {
#if SHARED
    __shared__ Body all_partners[P / 32][64];
    Body* const partners = all_partners[threadIdx.x / 32];
#endif
    const int lane = threadIdx.x % 32;
    const int warp = __shfl_sync(0xffffffff, (blockIdx.x * P + threadIdx.x) / 32, 0);
    const int block = warp / parts;
    const int part = warp - block * parts;
    const int blocks = (n + width - 1) / width;
    if (block >= blocks) return;
    const int units = ring_length(block, blocks) * turns;
    int unit = static_cast<long long>(units) * part / parts;
    const int end = static_cast<long long>(units) * (part + 1) / parts;
    if (unit == end) return;

    Body own[R];
    Sums of_own[R] = {};
#pragma unroll
    for (int b = 0; b < R; ++b) own[b] = body_or_nobody(bodies, block * width + b * 32 + lane, n);
    const int next = (lane + 1) % 32;
#if EQUAL
    bool equal = true;
    const real mass = bodies[min(block * width, n - 1)].mass;
    real partner_mass;
    {
#pragma unroll
        for (int b = 0; b < R; ++b) equal &= own[b].mass == mass;
        int group = block * R + unit / turns;
        if (group >= blocks * R) group -= blocks * R;
        partner_mass = bodies[min(group * 32, n - 1)].mass;
        for (int k = unit / turns; k * turns < end; ++k) {
            equal &= bodies[min(group * 32 + lane, n - 1)].mass == partner_mass;
            if (++group == blocks * R) group = 0;
        }
        equal = __all_sync(0xffffffff, equal);
    }
#else
    constexpr bool equal = false;
#endif
    while (unit < end) {
        const int ahead = unit / turns;
        const int first = unit - ahead * turns;
        const int last = min(end - ahead * turns, turns);
        int group = block * R + ahead;
        if (group >= blocks * R) group -= blocks * R;
        Body j = body_or_nobody(bodies, group * 32 + (lane + (SHARED ? 0 : first * UNROLL)) % 32, n);
        Sums of_j = {};
#if SHARED
        __syncwarp();
        partners[lane] = j;
        partners[lane + 32] = j;
        __syncwarp();
        const Body* place = partners + lane + first * UNROLL;
#else
        const Body* place = nullptr;
#endif
        if (equal) {
#pragma unroll 1
            for (int turn = first; turn < last; ++turn, place += UNROLL)
                steps<true>(of_own, of_j, own, j, place, next, eps2);
#if EQUAL
            of_j.ax *= mass;
            of_j.ay *= mass;
            of_j.az *= mass;
#endif
        } else {
#pragma unroll 1
            for (int turn = first; turn < last; ++turn, place += UNROLL)
                steps<false>(of_own, of_j, own, j, place, next, eps2);
        }
        const int k = group * 32 + (lane + last * UNROLL) % 32;
        if (ahead >= R && k < n) add_atomically(accelerations + k, of_j);
        unit = (ahead + 1) * turns;
    }
#pragma unroll
    for (int b = 0; b < R; ++b) {
#if EQUAL
        if (equal) {
            of_own[b].ax *= partner_mass;
            of_own[b].ay *= partner_mass;
            of_own[b].az *= partner_mass;
        }
#endif
        const int i = block * width + b * 32 + lane;
        if (i < n) add_atomically(accelerations + i, of_own[b]);
    }
}
