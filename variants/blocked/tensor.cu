// Compute distances and sums on tensor cores, for bodies that are far enough from each other.
//
// A squared distance is a sum of products, |x_i|^2 + eps^2 + |x_j|^2 - 2 x_i x_j, and so is the acceleration of a body,
// sum w m_j x_j - x_i sum w m_j with w = r^-3. Both are matrix products, with one inverse square root and two
// multiplications per pair between them. The difficulty is cancellation: in r^2 where bodies are near each other, and
// in the two sums where bodies are near each other and far from the origin. So bodies form blocks of 32 * R that are
// near each other in space. A warp takes one block, I, and reads the others, J, 64 bodies at a time, relative to the
// centre of I. Groups of 64 with no body nearer to that centre than SEPARATION / 100 times the radius of I go through
// the tensor cores, the others through float32.
//
// Distances: a number is split into a high and a low part in FP16, 22 bits together. (h + l)(h' + l') of x, y and z, 12
// products, and the squares of i and j, two products each, are the depth of one matrix product m16n8k16. Sums: w is
// rounded to the sum of two FP16 numbers, or with TERMS 1 to one FP16 number, 11 bits, where no body of J is nearer
// than twice the radius of I, and none of either has more than a part in MANY of all mass: else few bodies make up most
// of a pull, and their rounding errors do not cancel. With CUBE 16 (tensor_half), that one number is 1 / r, rounded to
// FP16 and cubed there, which triples its rounding error and adds two. The other factor is always two FP16 numbers.
// Scaling by powers of two brings both into the range of FP16. The tensor core adds up a block of pairs, which is
// scaled back and added in float32. FMA_ROOTS of every eight inverse square roots are computed on the FMA pipe.
//
// TOGETHER tiles of 16 bodies of J meet the same bodies of I, which are then read once for all of them, and one tile's
// square roots do not wait for its own products alone. The next 64 bodies of J are read while these are computed.
//
// Each pair is used twice, as in symmetric: the transpose of w (movmatrix) times the bodies of I accelerates J. A pair
// of blocks is computed by the block with the smaller number; blocks are numbered by radius, the most compact first.
// Rows a and blocks - 1 - a of that triangle form a line of blocks + 1 pairs of blocks, and a line is divided into
// `parts`, one warp each; of several GPUs each computes every `shares`-th line, from line `share` on (tensor_gpus).
// Sums leave by atomic additions to one of `copies` places per body, so that each place adds up few terms.
// tensor_gather clears them, and tensor_scatter adds them up.
//
// Blocks are runs of the order along Hilbert's curve: tree_box finds the box of the bodies and tree_keys the key of
// each (tree_build.cuh), and a library sorts the keys. tensor_radii finds the radius of each block, and tensor_ranks
// sorts the blocks by it. tensor_gather puts the bodies into that order, tensor_scatter takes the sums out of it. Which
// pairs of blocks are far apart is decided where they meet, so that an order found for other positions costs time and
// no accuracy.
//
// Expected: faster than symmetric where most blocks are far apart. A pair of bodies (two interactions) costs a lane one
// inverse square root, two multiplications, and half each of a conversion, a transposition and a matrix product (TERMS
// 2: three instructions more). With TERMS 1 the limit is then the rate of inverse square roots, 16 per cycle and
// multiprocessor; with TERMS 2, that of issuing. Chips before sm_80 have no matrix products of this shape and compute
// everything in float32.
//
// Global loads per body: n / (64 * R) of 16 bytes where blocks are far apart. bodies[i] = x, y, z, mass;
// accelerations[i] = x, y, z, 0; n rows each.
#ifdef FLOAT64
#error "tensor computes in float32"
#endif

// A kernel is compiled where KERNEL_ and its name are defined, with the constants that it depends on. A header is read
// where its constants are defined.
#include "tree_box.cuh"
#include "warp.cuh"
#ifdef BITS
#include "tree_keys.cuh"
#endif
#include "tree_build.cuh"

#ifdef R
constexpr int width = 32 * R;  // bodies per block

// The place of a body in `order`, which is sorted along the curve: the blocks follow each other as `ranks` says.
__device__ __forceinline__ int before(const int* ranks, int k) {
    return ranks[k / width] * width + k % width;
}
#endif

#ifdef KERNEL_tensor
constexpr int tiles = width / 16;
constexpr int step = 64;        // bodies of block J at a time, two per lane
constexpr int unroll = UNROLL;  // nvcc expands no macro in a pragma
constexpr int together = TOGETHER;

// Whether the words of J that a matrix product takes twice are kept once, so that more warps have room.
constexpr bool narrow = R == 4 && RESIDENT * (P / 32) > 18;

// What a warp keeps in shared memory. Words of pulls hold two bodies: a row of `pulls` has the eight components of two
// neighbours, and one of `own_pulls` those of bodies k, k + 1 and k + 8, k + 9, interleaved as `left` is.
//
// Of the 64 bodies of J, `right` and `positions` have the even ones first, then the odd ones. The order of the rows of
// `pulls`, and the swizzle of `right` and `pulls`, are drawn above product_f16.
struct __align__(16) Staged {
    uint4 left[width * 2];
    unsigned right[step * (narrow ? 4 : 8)];
    float2 far[tiles][32];
    uint4 own_pulls[width / 2][2];
    uint4 pulls[step / 2][2];
    float positions[step][3];
    unsigned short rests[narrow ? step : 2];
};

#include "add_sums.cuh"

// Add to the sums of `count` bodies, two per lane at a time, their interactions with `others` bodies, in float32.
__device__ __forceinline__ void pull_near(Sums* home, const Body* bodies, int first, int count, int first_other,
                                          int others, real eps2) {
#pragma unroll 1
    for (int i = first + 2 * (threadIdx.x % 32); i < first + count; i += step) {
        const Body own[2] = {bodies[i], bodies[i + 1]};
        Sums sums[2] = {};
#pragma unroll 4
        for (int k = first_other; k < first_other + others; ++k) {
            const Body other = bodies[k];
            interact(sums[0], own[0], other, eps2);
            interact(sums[1], own[1], other, eps2);
        }
        add_atomically(home + i, sums[0]);
        add_atomically(home + i + 1, sums[1]);
    }
}

#if __CUDA_ARCH__ >= 800
// Read as integers, the bits of non-negative numbers are in the order of the numbers: one instruction finds the
// largest.
__device__ __forceinline__ float largest_of_warp(float value) {
    return __uint_as_float(warp_max(__float_as_uint(value)));
}

__device__ __forceinline__ float smallest_of_warp(float value) {
    return __uint_as_float(warp_min(__float_as_uint(value)));
}

__device__ __forceinline__ float root_of(float value) {
    return value > 0 ? value * inverse_sqrt(value) : 0;
}

// 2^exponent, with the exponent clamped to the range of a float less a margin for products. A float has its exponent,
// plus 127, in the bits from 23 on.
__device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float(static_cast<unsigned>(127 + max(-120, min(120, exponent))) << 23);
}

// The exponent of the largest power of two that is not greater; -127 for zero.
__device__ __forceinline__ int exponent_of(float value) {
    return static_cast<int>(__float_as_uint(value) >> 23) - 127;
}

// Two FP16 numbers in a word, the first in the low half.
__device__ __forceinline__ unsigned pack(float first, float second) {
    unsigned packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

// The rounding errors of pack, as two FP16 numbers.
__device__ __forceinline__ unsigned pack_rest(unsigned packed, float first, float second) {
    float kept_first, kept_second;
    asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
        : "=f"(kept_first), "=f"(kept_second)
        : "r"(packed));
    return pack(first - kept_first, second - kept_second);
}

// 1 / sqrt(value) in 11 instructions, none of them on the pipe for inverse square roots: the guess is within 3.5 %, the
// first step leaves 1e-4, and the second only rounding errors. The guess halves and negates the exponent, as the bits
// of a float are nearly its logarithm.
__device__ __forceinline__ float inverse_sqrt_by_fma(float value) {
    float root = __uint_as_float(0x5f3759dfu - (__float_as_uint(value) >> 1));
    float wrong = fmaf(-value * root, root, 1.0f);
    root = fmaf(root * wrong, fmaf(0.375f, wrong, 0.5f), root);
    wrong = fmaf(-value * root, root, 1.0f);
    return fmaf(0.5f * root, wrong, root);
}

// The cubes of the two FP16 numbers in a word.
__device__ __forceinline__ unsigned cubes(unsigned packed) {
    unsigned result;
    asm("{.reg .b32 square; mul.rn.f16x2 square, %1, %1; mul.rn.f16x2 %0, square, %1;}" : "=r"(result) : "r"(packed));
    return result;
}

// The sum of the FP16 numbers in the low halves of two words.
__device__ __forceinline__ float sum_of_parts(unsigned high, unsigned low) {
    float first, second;
    asm("{.reg .f16 a, b, c; mov.b32 {a, c}, %2; mov.b32 {b, c}, %3; cvt.f32.f16 %0, a; cvt.f32.f16 %1, b;}"
        : "=f"(first), "=f"(second)
        : "r"(high), "r"(low));
    return first + second;
}

__device__ __forceinline__ unsigned transposed(unsigned packed) {
    unsigned result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(packed));
    return result;
}

// The fragments of mma.m16n8k16, as lane.word: lane 4 g + t has rows g and g + 8 of A and d, and column g of B. Words
// of A and B hold two FP16 numbers, and d[0] ... d[3] one float each. Rows and columns between those drawn go on alike.
//
//     A    depth   0,1    2,3    4,5    6,7    8,9  10,11  12,13  14,15
//     A row  0     0.x    1.x    2.x    3.x    0.z    1.z    2.z    3.z
//     A row  1     4.x    5.x    6.x    7.x    4.z    5.z    6.z    7.z
//     A row  7    28.x   29.x   30.x   31.x   28.z   29.z   30.z   31.z
//     A row  8     0.y    1.y    2.y    3.y    0.w    1.w    2.w    3.w
//     A row 15    28.y   29.y   30.y   31.y   28.w   29.w   30.w   31.w
//
//     B    depth   0,1    2,3    4,5    6,7    8,9  10,11  12,13  14,15
//     B column 0   0.x    1.x    2.x    3.x    0.y    1.y    2.y    3.y
//     B column 1   4.x    5.x    6.x    7.x    4.y    5.y    6.y    7.y
//     B column 7  28.x   29.x   30.x   31.x   28.y   29.y   30.y   31.y
//
//     d   column     0      1      2      3      4      5      6      7
//     d row  0     0.0    0.1    1.0    1.1    2.0    2.1    3.0    3.1
//     d row  1     4.0    4.1    5.0    5.1    6.0    6.1    7.0    7.1
//     d row  7    28.0   28.1   29.0   29.1   30.0   30.1   31.0   31.1
//     d row  8     0.2    0.3    1.2    1.3    2.2    2.3    3.2    3.3
//     d row 15    28.2   28.3   29.2   29.3   30.2   30.3   31.2   31.3
//
// Distances: rows of A are 16 bodies of I (`left`), columns of B eight bodies of J (`right`): of 16, those with even
// numbers in one product, and those with odd numbers in another. Each number is a high and a low part, h and l; s and S
// are the squares of I and J, u is `unit`, and f `times`. -2 and the scales are in the numbers of J.
//
//     depth   0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
//     A (I)  xh  xh  yh  yh  zh  zh  sh   u  xl  xl  yl  yl  zl  zl  sl   u
//     B (J)  xh  xl  yh  yl  zh  zl   f  Sh  xh  xl  yh  yl  zh  zl   f  Sl
//
// Sums of I: a lane packs what it has of an even body of J and of the odd one behind it into a word, and has a fragment
// of A without any exchange. So its depth is the bodies of J in another order, which the rows of `pulls` have too.
//
//     depth   0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
//     body    0   1   4   5   8   9  12  13   2   3   6   7  10  11  14  15
//
// Columns of B are m x, m y, m z and m, the high part of each before the low one: d[0] + d[1] is component t of row g,
// d[2] + d[3] that of row g + 8.
//
// Sums of J: the same with the transpose of A. movmatrix transposes each quarter of A, which is one word of every lane;
// then y and z change places. Rows are the bodies of J in the order above, the depth is the bodies of I (`own_pulls`).
//
// Swizzles, for 16-byte stores by eight lanes at once: of eight rows of `right` or `pulls`, 32 bytes each, the last
// four have their halves swapped. Else rows k and k + 4 would be stored to the same banks. `narrow` rows have 16 bytes.

// d = A B in FP16, A of 16 rows and 16 columns, B of 16 rows and 8 columns.
__device__ __forceinline__ void product_f16(float (&d)[4], const uint4& a, const uint2& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
        : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b.x), "r"(b.y), "f"(0.0f));
}

// d += A B in FP16, A of 16 rows and 16 columns, B of 16 rows and 8 columns.
__device__ __forceinline__ void multiply_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                             const uint2& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b.x), "r"(b.y));
}

// The low half of the first word, and in the high half the low or the high half of the second.
__device__ __forceinline__ unsigned low_and_low(unsigned first, unsigned second) {
    return (first & 0xffffu) | second << 16;
}

__device__ __forceinline__ unsigned low_and_high(unsigned first, unsigned second) {
    return (first & 0xffffu) | (second & 0xffff0000u);
}

constexpr float unit = 1.0f / 256;  // what the squares of block J are multiplied by

// Write the factors of the distances for block I: the high and low parts of each coordinate, each twice, and those of
// the square, each beside the unit. Words of bodies i and i + 8 are interleaved as the matrix product takes them.
__device__ __forceinline__ void write_left(uint4* left, int i, const Body& body, float square, int length) {
    const float scale = power_of_two(-length - 1);
    const float numbers[3] = {body.x * scale, body.y * scale, body.z * scale};
    unsigned* const to = &left[i / 16 * 32 + i % 8 * 4].x + i / 8 % 2;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const unsigned twice = pack(numbers[axis], numbers[axis]);
        to[4 * axis] = twice;
        to[4 * axis + 2] = pack_rest(twice, numbers[axis], numbers[axis]);
    }
    square *= power_of_two(-length);
    square *= power_of_two(-length);
    const unsigned both = pack(square, unit);
    to[12] = both;
    to[14] = low_and_high(pack_rest(both, square, unit), both);
}

// The same for a body of J, to a row of `right`: the high part of each coordinate beside the low one, twice, multiplied
// by -2 and both scales; and what the square of I is multiplied by, beside both parts of the square of J.
__device__ __forceinline__ void write_right(Staged& staged, int row, const Body& body, float square, int length,
                                            int own_length) {
    // Clamped only where FP16 has no such small number.
    const float scale = -power_of_two(own_length + 2 - 2 * length);
    const float numbers[3] = {body.x * scale, body.y * scale, body.z * scale};
    unsigned words[4];
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        const unsigned twice = pack(numbers[axis], numbers[axis]);
        words[axis] = low_and_low(twice, pack_rest(twice, numbers[axis], numbers[axis]));
    }
    const float times = power_of_two(2 * (own_length - length));
    square *= power_of_two(-2 * length) * (1 / unit);
    words[3] = pack(times, square);
    const unsigned rest = pack_rest(words[3], times, square);
    if (narrow) {
        reinterpret_cast<uint4*>(staged.right)[row] = make_uint4(words[0], words[1], words[2], words[3]);
        staged.rests[row] = rest >> 16;
    } else {
        uint4* const right = reinterpret_cast<uint4*>(staged.right) + 2 * row;
        const int swapped = row / 4 % 2;
        right[swapped] = make_uint4(words[0], words[0], words[1], words[1]);
        right[1 - swapped] = make_uint4(words[2], words[2], words[3], low_and_high(words[3], rest));
    }
}

// What a lane takes of its column of the matrix product with the eight bodies of `right` from a row on.
__device__ __forceinline__ uint2 read_right(const Staged& staged, int row) {
    const int lane = threadIdx.x % 32;
    if (!narrow) return reinterpret_cast<const uint2*>(staged.right)[4 * row + (lane ^ lane / 16 * 2)];
    const unsigned word = staged.right[4 * row + lane];
    return make_uint2(word, lane % 4 == 3 ? low_and_low(word, staged.rests[row + lane / 4]) : word);
}

// Find the factors of the sums for a lane's two bodies: m x, m y, m z and m, each as two FP16 numbers; `length_scale`
// and `mass_scale` are what lengths and masses are multiplied by.
__device__ __forceinline__ void find_pulls(unsigned (&words)[8], const Body (&own)[2], float length_scale,
                                           float mass_scale) {
    const float first_mass = own[0].mass * mass_scale, second_mass = own[1].mass * mass_scale;
    const float by_first = first_mass * length_scale, by_second = second_mass * length_scale;
    const float first[4] = {own[0].x * by_first, own[0].y * by_first, own[0].z * by_first, first_mass};
    const float second[4] = {own[1].x * by_second, own[1].y * by_second, own[1].z * by_second, second_mass};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        words[2 * c] = pack(first[c], second[c]);
        words[2 * c + 1] = pack_rest(words[2 * c], first[c], second[c]);
    }
}

// Turn the squared distances of 16 bodies of I from 16 of J into w, and add what each does to the other.
template <int terms>
__device__ __forceinline__ void pull_far(float (&on_i)[4], float (&of_j)[4], float (&w)[2][4], const uint2& others,
                                         const uint2& own) {
    unsigned kept[4], rest[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        // Two neighbours in J, from the product with the even bodies and that with the odd ones; k: even and odd
        // columns, upper and lower rows.
        float& a = w[0][k % 2 * 2 + k / 2];
        float& b = w[1][k % 2 * 2 + k / 2];
        a = 2 * k < FMA_ROOTS ? inverse_sqrt_by_fma(a) : inverse_sqrt(a);
        b = 2 * k + 1 < FMA_ROOTS ? inverse_sqrt_by_fma(b) : inverse_sqrt(b);
        if (terms == 1 && CUBE == 16) {
            kept[k] = cubes(pack(a, b));
            continue;
        }
        a = a * a * a;
        b = b * b * b;
        kept[k] = pack(a, b);
        if (terms == 2) rest[k] = pack_rest(kept[k], a, b);
    }
    multiply_f16(on_i, kept[0], kept[1], kept[2], kept[3], others);
    if (terms == 2) multiply_f16(on_i, rest[0], rest[1], rest[2], rest[3], others);
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        kept[k] = transposed(kept[k]);
        if (terms == 2) rest[k] = transposed(rest[k]);
    }
    multiply_f16(of_j, kept[0], kept[2], kept[1], kept[3], own);
    if (terms == 2) multiply_f16(of_j, rest[0], rest[2], rest[1], rest[3], own);
}

// Exponents of the powers of two by which lengths and masses are divided, to bring both into the range of FP16.
struct Scale {
    int length, mass;
};

// What a lane has of 16 bodies of J: of the eight with even numbers and of the eight with odd numbers its column of the
// matrix product for distances, and of all its column of that for sums.
struct OtherTile {
    uint2 distances[2];
    uint2 pulls;
};

__device__ __forceinline__ OtherTile read_other_tile(const Staged& staged, int tile) {
    const int group = lane_of_thread() / 4, part = lane_of_thread() % 4;
    OtherTile other;
    other.distances[0] = read_right(staged, 8 * tile);
    other.distances[1] = read_right(staged, 8 * tile + step / 2);
    // A tile has eight rows of eight words: row `part`, and row part + 4, the halves of which are swapped.
    const unsigned* const words = &staged.pulls[part][0].x + 64 * tile;
    other.pulls = make_uint2(words[group], words[32 + (group ^ 4)]);
    return other;
}

// Compute the squared distances of 16 bodies of I from a tile of J.
__device__ __forceinline__ void find_distances(float (&w)[2][4], const uint4& left, const OtherTile& other) {
    product_f16(w[0], left, other.distances[0]);
    product_f16(w[1], left, other.distances[1]);
}

// Let block I and the 64 bodies of J that are staged act on each other, with r^-3 as one or two FP16 numbers.
template <int terms>
__device__ __forceinline__ void meet(Staged& staged, Sums* sums_of_j, const Scale& scale_of_i,
                                     const Scale& scale_of_j) {
    const int lane = threadIdx.x % 32;
    const int group = lane / 4;
    const int part = lane % 4;
    const bool is_mass = part == 3;
    const float cube = power_of_two(-3 * scale_of_j.length);
    const float on_j = cube * power_of_two(scale_of_i.mass) * (is_mass ? 1.0f : power_of_two(scale_of_i.length));
    // Of every 16 bodies of J, the first one whose sums the lane gets, and where its position is staged.
    const int first = group / 2 * 4 + group % 2;
    const float* const positions = &staged.positions[group / 2 * 2 + group % 2 * 32][is_mass ? 0 : part];
    const uint2* const own_pulls = reinterpret_cast<const uint2*>(&staged.own_pulls[0][0]) + 8 * part + group;
    real* const to = &sums_of_j[first].ax + part;
    float on_i[tiles][4] = {};
#pragma unroll unroll
    for (int tile_j = 0; tile_j < step / 16; tile_j += together) {
        OtherTile others[together];
        float of_j[together][4] = {};
#pragma unroll
        for (int k = 0; k < together; ++k) others[k] = read_other_tile(staged, tile_j + k);
        // The squared distances of the next tile are on their way while the roots of this one are taken.
        uint4 left = staged.left[lane];
        float w[2][2][4];
        find_distances(w[0], left, others[0]);
#pragma unroll
        for (int number = 0; number < tiles * together; ++number) {
            const int tile = number / together, k = number % together;
            const uint2 own = own_pulls[32 * tile];
            if (number + 1 < tiles * together) {
                const int after = (number + 1) % together;
                if (after == 0) left = staged.left[32 * (tile + 1) + lane];
                find_distances(w[(number + 1) % 2], left, others[after]);
            }
            pull_far<terms>(on_i[tile], of_j[k], w[number % 2], others[k].pulls, own);
        }
#pragma unroll
        for (int k = 0; k < together; ++k) {
            // A lane has component `part` of two bodies, one of which is two places behind the other; component 3 is
            // sum w m.
            const float up = (of_j[k][0] + of_j[k][1]) * on_j;
            const float down = (of_j[k][2] + of_j[k][3]) * on_j;
            const float up_mass = broadcast(up, lane | 3);
            const float down_mass = broadcast(down, lane | 3);
            if (!is_mass) {
                const int tile = tile_j + k;
                atomicAdd(to + 64 * tile, up - positions[24 * tile] * up_mass);
                atomicAdd(to + 64 * tile + 8, down - positions[24 * tile + 3] * down_mass);
            }
        }
    }
    const float back = cube * power_of_two(scale_of_j.mass) * (is_mass ? 1.0f : power_of_two(scale_of_j.length));
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
        staged.far[tile][lane].x += (on_i[tile][0] + on_i[tile][1]) * back;
        staged.far[tile][lane].y += (on_i[tile][2] + on_i[tile][3]) * back;
    }
}

__device__ __forceinline__ void load(Body (&two)[2], const Body* bodies) {
    two[0] = bodies[0];
    two[1] = bodies[1];
}

// See two bodies from a point: their positions relative to it, and the squares of their distances from it.
__device__ __forceinline__ void see(Body (&seen)[2], float (&square)[2], const Body (&two)[2], const Body& from) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        seen[k] = Body{two[k].x - from.x, two[k].y - from.y, two[k].z - from.z, two[k].mass};
        square[k] = seen[k].x * seen[k].x + (seen[k].y * seen[k].y + seen[k].z * seen[k].z);
    }
}

// A block I as a whole: the mean of its positions, its radius about that, and the largest of its masses.
struct OwnBlock {
    Body middle;
    float radius, radius2, heaviest;
    Scale scale;
};

__device__ __forceinline__ OwnBlock find_own_block(const Body* bodies) {
    OwnBlock own = {};
    const int lane = threadIdx.x % 32;
    for (int k = lane; k < width; k += 32) {
        const Body body = bodies[k];
        own.middle.x += body.x;
        own.middle.y += body.y;
        own.middle.z += body.z;
        own.heaviest = max(own.heaviest, body.mass);
    }
    own.middle.x = warp_sum(own.middle.x) * (1.0f / width);
    own.middle.y = warp_sum(own.middle.y) * (1.0f / width);
    own.middle.z = warp_sum(own.middle.z) * (1.0f / width);
    for (int k = 2 * lane; k < width; k += step) {
        Body two[2], seen[2];
        float square[2];
        load(two, bodies + k);
        see(seen, square, two, own.middle);
        own.radius2 = max(own.radius2, max(square[0], square[1]));
    }
    own.radius2 = largest_of_warp(own.radius2);
    own.radius = root_of(own.radius2);
    own.scale.length = exponent_of(own.radius2) / 2 + 1;
    own.heaviest = largest_of_warp(own.heaviest);
    own.scale.mass = exponent_of(own.heaviest) + 1;
    return own;
}

// Write the factors of both products for block I, and clear its sums.
__device__ __forceinline__ void stage_own_block(Staged& staged, const Body* bodies, const OwnBlock& own) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    for (int k = 2 * lane; k < width; k += step) {
        Body two[2], seen[2];
        float square[2];
        load(two, bodies + k);
        see(seen, square, two, own.middle);
        write_left(staged.left, k, seen[0], square[0], own.scale.length);
        write_left(staged.left, k + 1, seen[1], square[1], own.scale.length);
        unsigned words[8];
        find_pulls(words, seen, power_of_two(-own.scale.length), power_of_two(-own.scale.mass));
        // 16 bodies have 64 words, two neighbours eight of 16 words, between those of the bodies eight places away.
        unsigned* const to = &staged.own_pulls[0][0].x + k / 16 * 64 + k / 2 % 4 * 16 + k / 8 % 2;
#pragma unroll
        for (int c = 0; c < 8; ++c) to[2 * c] = words[c];
    }
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) staged.far[tile][lane] = make_float2(0, 0);
    __syncwarp();
}

// Write the factors of the distances for a lane's two bodies of J, and where they are.
__device__ __forceinline__ void stage_distances(Staged& staged, const Body (&seen)[2], const float (&square)[2],
                                                real eps2, int length, int own_length, int lane) {
    write_right(staged, lane, seen[0], square[0] + eps2, length, own_length);
    write_right(staged, lane + step / 2, seen[1], square[1] + eps2, length, own_length);
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        staged.positions[lane][axis] = (&seen[0].x)[axis];
        staged.positions[lane + step / 2][axis] = (&seen[1].x)[axis];
    }
}

// Add what far bodies have done to block I to its sums in memory.
__device__ __forceinline__ void add_far(Sums* sums, int first, const Staged& staged, int own_length) {
    const int lane = threadIdx.x % 32, group = lane / 4, part = lane % 4;
#pragma unroll
    for (int tile = 0; tile < tiles; ++tile) {
        const float2 far = staged.far[tile][lane];
        const float own_scale = power_of_two(own_length + 1);
        const float up_mass = broadcast(far.x, lane | 3);
        const float down_mass = broadcast(far.y, lane | 3);
        real* const to = &sums[first + 16 * tile + group].ax + part;
        if (part < 3) {
            const uint4 left = staged.left[32 * tile + lane];
            const float x_up = sum_of_parts(left.x, left.z) * own_scale;
            const float x_down = sum_of_parts(left.y, left.w) * own_scale;
            atomicAdd(to, far.x - x_up * up_mass);
            atomicAdd(to + 32, far.y - x_down * down_mass);
        }
    }
}
#endif

// Let block I meet blocks J of its row, 64 bodies at a time: the row has units of the line from `row_begin` on, the
// first of which is the block with itself, and those from `unit` up to `end` are the warp's.
//
// Where 64 bodies are far, lengths are scaled so that squared distances begin at 2^-6, where the smallest FP16 numbers
// are still fine enough, and w is at most 512; within a factor of 32 in distance the smallest w still has some bits. A
// float holds the cube of the scale. `total` is the mass of all bodies.
__device__ __forceinline__ void meet_row(Sums* home, const Body* __restrict__ bodies, int i_block, int row_begin,
                                         int unit, int end, real eps2, const real* __restrict__ total) {
    const int i_first = i_block * width;
#if __CUDA_ARCH__ >= 800
    __shared__ Staged all_staged[P / 32];
    Staged& staged = all_staged[threadIdx.x / 32];
    const OwnBlock own = find_own_block(bodies + i_first);
    stage_own_block(staged, bodies + i_first, own);
#endif
    const int j_begin = (i_block + unit - row_begin) * width;
    const int j_end = (i_block + end - row_begin) * width;
#if __CUDA_ARCH__ >= 800
    Body two[2], seen[2];
    float square[2];
    const int lane = threadIdx.x % 32;
    load(two, bodies + j_begin + 2 * lane);
#endif
    for (int j_first = j_begin; j_first < j_end; j_first += step) {
        const bool same = j_first < i_first + width;
#if __CUDA_ARCH__ >= 800
        see(seen, square, two, own.middle);
        // The next bodies are on their way while these are computed.
        if (j_first + step < j_end) load(two, bodies + j_first + step + 2 * lane);
        const float nearest = smallest_of_warp(min(square[0], square[1]));
        const float furthest = largest_of_warp(max(square[0], square[1]));
        // No pair is nearer than this.
        const float between = max(root_of(nearest) - own.radius, 0.0f);
        const float least = between * between + eps2;
        const int length = (exponent_of(least) >> 1) + 3;
        constexpr float separation = SEPARATION / 100.0f;
        if (!same && nearest > separation * separation * own.radius2 && furthest + eps2 < 1024 * least &&
            abs(length) <= 40) {
            const float heaviest = largest_of_warp(max(seen[0].mass, seen[1].mass));
            const Scale scale = {length, exponent_of(heaviest) + 1};
            __syncwarp();
            stage_distances(staged, seen, square, eps2, length, own.scale.length, lane);
            unsigned words[8];
            find_pulls(words, seen, power_of_two(-length), power_of_two(-scale.mass));
            // Of each eight lanes the even ones have the first four rows, the odd ones the others, whose halves are
            // swapped.
            uint4* const to = staged.pulls[lane / 8 * 8 + lane % 2 * 4 + lane % 8 / 2];
            to[lane % 2] = make_uint4(words[0], words[1], words[2], words[3]);
            to[1 - lane % 2] = make_uint4(words[4], words[5], words[6], words[7]);
            __syncwarp();
            if (TERMS == 1 && nearest > 4 * own.radius2 && MANY * max(own.heaviest, heaviest) <= *total)
                meet<1>(staged, home + j_first, own.scale, scale);
            else
                meet<2>(staged, home + j_first, own.scale, scale);
            continue;
        }
#endif
        pull_near(home, bodies, i_first, width, j_first, step, eps2);
        if (!same) pull_near(home, bodies, j_first, step, i_first, width, eps2);
    }
#if __CUDA_ARCH__ >= 800
    add_far(home, i_first, staged, own.scale.length);
#endif
}

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    tensor(const Body* __restrict__ bodies, Sums* __restrict__ sums, int blocks, real eps2, int parts, int copies,
           const real* __restrict__ total, int share, int shares) {
    // The same number in all lanes: from lane 0, so that the compiler knows it.
    const int warp = broadcast(blockIdx.x * (P / 32) + threadIdx.x / 32, 0);
    const int number = warp / parts;
    const int line = share + number * shares;
    const int part_of_line = warp - number * parts;
    if (line >= (blocks + 1) / 2) return;
    // With an odd number of blocks the middle line is one row without a partner.
    const int units = 2 * line == blocks - 1 ? blocks - line : blocks + 1;
    int unit = static_cast<int>(static_cast<long long>(units) * part_of_line / parts);
    const int end = static_cast<int>(static_cast<long long>(units) * (part_of_line + 1) / parts);

    // A part of a line has pairs of one row, or the last ones of a row and the first ones of its partner.
    while (unit < end) {
        const int in_first = blocks - line;
        const int i_block = unit < in_first ? line : blocks - 1 - line;
        const int begin = unit < in_first ? 0 : in_first;
        const int row_end = min(end, unit < in_first ? in_first : units);
        Sums* const home = sums + static_cast<long long>(i_block % copies) * blocks * width;

        meet_row(home, bodies, i_block, begin, unit, row_end, eps2, total);
        unit = row_end;
    }
}
#endif

#ifdef KERNEL_tensor_radii
// The square of each block's radius about the mean of its positions, as the bits of a float, one warp per block. A last
// block that is not full stays behind all others.
extern "C" __global__ void __launch_bounds__(P)
    tensor_radii(const Body* __restrict__ bodies, const long long* __restrict__ order, unsigned* __restrict__ radii,
                 int n, int blocks) {
    const int block = blockIdx.x * (P / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (block >= blocks) return;
    Body own[R];
    Body middle = {};
#pragma unroll
    for (int k = 0; k < R; ++k) {
        own[k] = bodies[order[min(block * width + 32 * k + lane, n - 1)]];
        middle.x += own[k].x;
        middle.y += own[k].y;
        middle.z += own[k].z;
    }
    middle.x = warp_sum(middle.x) * (1.0f / width);
    middle.y = warp_sum(middle.y) * (1.0f / width);
    middle.z = warp_sum(middle.z) * (1.0f / width);
    float radius2 = 0;
#pragma unroll
    for (int k = 0; k < R; ++k) {
        const float x = own[k].x - middle.x, y = own[k].y - middle.y, z = own[k].z - middle.z;
        radius2 = max(radius2, x * x + (y * y + z * z));
    }
    radius2 = warp_max(radius2);
    const bool full = (block + 1) * width <= n;
    if (lane == 0) radii[block] = full ? static_cast<unsigned>(__float_as_int(radius2)) : 0xffffffffu;
}
#endif

#ifdef KERNEL_tensor_ranks
// Sort the blocks by their radii, one warp per block: it counts the blocks before its own.
extern "C" __global__ void __launch_bounds__(P)
    tensor_ranks(const unsigned* __restrict__ radii, int* __restrict__ ranks, int blocks) {
    const int block = blockIdx.x * (P / 32) + threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    if (block >= blocks) return;
    const unsigned own = radii[block];
    int before = 0;
#pragma unroll 4
    for (int first = 0; first < blocks; first += 32) {
        const int k = first + lane;
        const unsigned other = k < blocks ? radii[k] : 0xffffffffu;
        before += __popc(lanes_where(other < own || (other == own && k < block)));
    }
    if (lane == 0) ranks[before] = block;
}
#endif

#ifdef KERNEL_tensor_gather
// Copy the bodies into their blocks and clear the sums; places beyond the last body get a copy of it with mass 0.
extern "C" __global__ void __launch_bounds__(P)
    tensor_gather(const Body* __restrict__ bodies, const long long* __restrict__ order, const int* __restrict__ ranks,
                  Body* __restrict__ placed, Sums* __restrict__ sums, int n, int places, int copies,
                  real* __restrict__ total) {
    const int k = blockIdx.x * P + threadIdx.x;
    Body own = {};
    if (k < places) own = bodies[order[min(before(ranks, k), n - 1)]];
    if (k >= n) own.mass = 0;
    const real mass = warp_sum(own.mass);
    if (lane_of_thread() == 0) atomicAdd(total, mass);
    if (k >= places) return;
    placed[k] = own;
    for (int copy = 0; copy < copies; ++copy) sums[static_cast<long long>(copy) * places + k] = Sums{};
}
#endif

#ifdef KERNEL_tensor_scatter
extern "C" __global__ void __launch_bounds__(P)
    tensor_scatter(Sums* __restrict__ accelerations, const long long* __restrict__ order, const int* __restrict__ ranks,
                   const Sums* __restrict__ sums, int n, int places, int copies, real* __restrict__ total) {
    const int k = blockIdx.x * P + threadIdx.x;
    if (k >= n) return;
    if (k == 0) *total = 0;  // for the next launch
    Sums found = {};
    for (int copy = 0; copy < copies; ++copy) add(found, sums[static_cast<long long>(copy) * places + k]);
    accelerations[order[before(ranks, k)]] = found;
}
#endif
