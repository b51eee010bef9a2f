// Let tensor cores compute the distances and add up the pulls, of bodies far enough from each other.
//
// A squared distance is a sum of products, |x_i|^2 + eps^2 + |x_j|^2 - 2 x_i x_j, and so are the pulls on a body,
// sum w m_j x_j - x_i sum w m_j with w = r^-3: two matrix products, with one inverse square root and two
// multiplications a pair in between. What speaks against it is cancellation: in r^2 where bodies are near, in the two
// sums where they are near to each other and far from the origin. So bodies stand in blocks of 64 that are near in
// space. A warp takes one, block I, and sees the others from its middle; a block J with no body nearer to that middle
// than SEPARATION / 100 times the radius of I goes through the tensor cores, any other through ordinary float32.
//
// Distances: TF32 has 11 bits, so a number is split into a high and a low part, 22 bits together; (h + l)(h' + l') of
// x, y, z and the two squares are 16 products, the depth of two matrix products m16n8k8. Pulls: w is rounded to FP16,
// 11 bits, or with TERMS 2 to the sum of two; what it is multiplied with is always two FP16, 22 bits. Powers of two
// bring both into FP16's range. The tensor core adds up a block of pairs, which is scaled back and added in float32.
//
// Each pair is used twice, as in symmetric: w transposed (movmatrix) times the bodies of I is what pulls J. A pair of
// blocks is seen from the one with the smaller number, and blocks are numbered by their radius, the compact ones first.
// Rows a and blocks - 1 - a of that triangle make a line of blocks + 1 pairs of blocks; a line is cut into `parts`, a
// warp each. Sums go home by atomic additions to one of `copies` places a body, in which they stay short;
// tensor_gather makes room, tensor_scatter adds the copies and brings them into the bodies' order.
//
// A pair of bodies (two interactions) costs a lane 1 square root, 2 multiplications, 1/2 conversion and 3/8 matrix
// product (TERMS 2: 4 more instructions). Expected is what binds then, square roots: 16 a clock and multiprocessor.
// Chips before sm_80 have no TF32: there everything is near.
// bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; each of n rows.
#ifdef FLOAT64
#error "tensor computes in float32"
#endif

constexpr int width = 64;
constexpr int words = width / 2 + 4;  // of a column of pulls, in pairs of FP16; four more than needed, for the banks
constexpr float separation = SEPARATION / 100.0f;

// What a warp keeps in shared memory.
struct __align__(16) Staged {
    float4 distances[width * 4];
    unsigned pulls[8][words];
    Body own[width];
    Body others[width];
};

__device__ __forceinline__ void add_atomically(Sums* to, const Sums& sums) {
#if __CUDA_ARCH__ >= 900
    atomicAdd(reinterpret_cast<float4*>(to), make_float4(sums.ax, sums.ay, sums.az, 0));
#else
    atomicAdd(&to->ax, sums.ax);
    atomicAdd(&to->ay, sums.ay);
    atomicAdd(&to->az, sums.az);
#endif
}

#if KERNEL == 0
// Add to the sums of each of a lane's two bodies what all of a block do to it.
__device__ __forceinline__ void pull_both(Sums (&sums)[2], const Body (&own)[2], const Body* block, real eps2) {
#pragma unroll 4
    for (int k = 0; k < width; ++k) {
        const Body other = block[k];
        interact(sums[0], own[0], other, eps2);
        interact(sums[1], own[1], other, eps2);
    }
}

#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float sum_of_warp(float value) {
#pragma unroll
    for (int distance = 16; distance > 0; distance /= 2) value += __shfl_xor_sync(0xffffffff, value, distance);
    return value;
}

// Numbers that are not negative are in the order of their bits.
__device__ __forceinline__ float largest_of_warp(float value) {
    return __uint_as_float(__reduce_max_sync(0xffffffff, __float_as_uint(value)));
}

__device__ __forceinline__ float smallest_of_warp(float value) {
    return __uint_as_float(__reduce_min_sync(0xffffffff, __float_as_uint(value)));
}

// 2^exponent, the exponent kept within what a float holds with a margin for products.
__device__ __forceinline__ float power_of_two(int exponent) {
    return __uint_as_float(static_cast<unsigned>(127 + max(-120, min(120, exponent))) << 23);
}

// The exponent of the largest power of two that is not greater; -127 for zero.
__device__ __forceinline__ int exponent_of(float value) {
    return static_cast<int>(__float_as_uint(value) >> 23) - 127;
}

// What TF32 keeps of a number; the rest fits into TF32 but for two bits.
__device__ __forceinline__ float high(float value) {
    return __uint_as_float(__float_as_uint(value) & 0xffffe000u);
}

__device__ __forceinline__ unsigned bits(float value) {
    return __float_as_uint(value);
}

// Two FP16 in a word, the first one low.
__device__ __forceinline__ unsigned pack(float first, float second) {
    unsigned packed;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(second), "f"(first));
    return packed;
}

// What pack lost.
__device__ __forceinline__ unsigned pack_rest(unsigned packed, float first, float second) {
    float kept_first, kept_second;
    asm("{.reg .f16 low, high; mov.b32 {low, high}, %2; cvt.f32.f16 %0, low; cvt.f32.f16 %1, high;}"
        : "=f"(kept_first), "=f"(kept_second)
        : "r"(packed));
    return pack(first - kept_first, second - kept_second);
}

__device__ __forceinline__ unsigned transposed(unsigned packed) {
    unsigned result;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(result) : "r"(packed));
    return result;
}

// d += A B in TF32, A of 16 rows and 8 columns, B of 8 rows and 8 columns.
__device__ __forceinline__ void multiply_tf32(float (&d)[4], const float4& a, float b0, float b1) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(bits(a.x)), "r"(bits(a.y)), "r"(bits(a.z)), "r"(bits(a.w)), "r"(bits(b0)), "r"(bits(b1)));
}

// d += A B in FP16, A of 16 rows and 16 columns, B of 16 rows and 8 columns.
__device__ __forceinline__ void multiply_f16(float (&d)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3,
                                             const uint2& b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b.x), "r"(b.y));
}

// Where the four numbers of body j that belong to lane % 4 == part stand: neither writing nor reading meets a bank twice.
__device__ __forceinline__ int place(int j, int part) {
    return 8 * (j / 2) + ((j % 2 * 4 + part) ^ (j / 2 % 8));
}

// Write what distances are made of, for block I: (h, h, l, l) of each coordinate and (h, l, 1, 1) of the square. The
// numbers of bodies i and i + 8 stand as the matrix product takes them, four registers in a row.
__device__ __forceinline__ void write_left(float* fragments, int i, const Body& body, float square) {
    const float numbers[4] = {body.x, body.y, body.z, square};
    float* const to = fragments + (i / 16 * 8 + i % 8) * 32 + i / 8 % 2;
#pragma unroll
    for (int part = 0; part < 4; ++part) {
        const float h = high(numbers[part]), l = numbers[part] - h;
        to[8 * part] = h;
        to[8 * part + 2] = part < 3 ? h : l;
        to[8 * part + 4] = part < 3 ? l : 1;
        to[8 * part + 6] = part < 3 ? l : 1;
    }
}

// The same for block J: -2 (h, l, h, l) and (1, 1, h, l), times the scale.
__device__ __forceinline__ void write_right(float4* distances, int j, const Body& body, float square, float scale) {
    const float times = -2 * scale;
    const float x = high(body.x), y = high(body.y), z = high(body.z), h = high(square);
    const float xl = (body.x - x) * times, yl = (body.y - y) * times, zl = (body.z - z) * times;
    distances[place(j, 0)] = make_float4(x * times, xl, x * times, xl);
    distances[place(j, 1)] = make_float4(y * times, yl, y * times, yl);
    distances[place(j, 2)] = make_float4(z * times, zl, z * times, zl);
    distances[place(j, 3)] = make_float4(scale, scale, h * scale, (square - h) * scale);
}

// Write what the pulls of a lane's two bodies are made of: m x, m y, m z and m, each of them in two FP16.
__device__ __forceinline__ void write_pulls(unsigned (&pulls)[8][words], int lane, const Body (&own)[2], float length,
                                            float mass) {
    const float m0 = own[0].mass * mass, m1 = own[1].mass * mass;
    const float first[4] = {own[0].x * length * m0, own[0].y * length * m0, own[0].z * length * m0, m0};
    const float second[4] = {own[1].x * length * m1, own[1].y * length * m1, own[1].z * length * m1, m1};
#pragma unroll
    for (int c = 0; c < 4; ++c) {
        const unsigned packed = pack(first[c], second[c]);
        pulls[2 * c][lane] = packed;
        pulls[2 * c + 1][lane] = pack_rest(packed, first[c], second[c]);
    }
}

__device__ __forceinline__ uint2 read_pulls(const unsigned (&pulls)[8][words], int tile, int group, int part) {
    return make_uint2(pulls[group][8 * tile + part], pulls[group][8 * tile + part + 4]);
}
#endif

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    tensor(const Body* __restrict__ bodies, Sums* __restrict__ sums, int blocks, real eps2, int parts, int copies) {
    __shared__ Staged all_staged[P / 32];
    Staged& staged = all_staged[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    const int warp = __shfl_sync(0xffffffff, (blockIdx.x * P + threadIdx.x) / 32, 0);
    const int line = warp / parts;
    const int part_of_line = warp - line * parts;
    if (line >= (blocks + 1) / 2) return;
    // The middle line of an odd number of blocks is a row without a partner.
    const int units = 2 * line == blocks - 1 ? blocks - line : blocks + 1;
    int unit = static_cast<int>(static_cast<long long>(units) * part_of_line / parts);
    const int end = static_cast<int>(static_cast<long long>(units) * (part_of_line + 1) / parts);

    while (unit < end) {
        const int in_first = blocks - line;
        const int i_block = unit < in_first ? line : blocks - 1 - line;
        const int begin = unit < in_first ? 0 : in_first;
        const int row_end = min(end, unit < in_first ? in_first : units);
        Sums* const home = sums + static_cast<long long>(i_block % copies) * blocks * width;

        const Body own[2] = {bodies[i_block * width + 2 * lane], bodies[i_block * width + 2 * lane + 1]};
        Sums near[2] = {};
        __syncwarp();
        staged.own[2 * lane] = own[0];
        staged.own[2 * lane + 1] = own[1];
#if __CUDA_ARCH__ >= 800
        // In the fragments of matrix products a lane has to do with rows, or columns, `group`, and with `part` of depth.
        const int group = lane / 4;
        const int part = lane % 4;
        const float middle_x = sum_of_warp(own[0].x + own[1].x) * (1.0f / width);
        const float middle_y = sum_of_warp(own[0].y + own[1].y) * (1.0f / width);
        const float middle_z = sum_of_warp(own[0].z + own[1].z) * (1.0f / width);
        Body seen[2];
        float square[2];
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            seen[k] = Body{own[k].x - middle_x, own[k].y - middle_y, own[k].z - middle_z, own[k].mass};
            square[k] = seen[k].x * seen[k].x + (seen[k].y * seen[k].y + seen[k].z * seen[k].z);
        }
        const float radius2 = largest_of_warp(max(square[0], square[1]));
        const int own_length = exponent_of(radius2) / 2 + 1;
        const int own_mass = exponent_of(largest_of_warp(max(own[0].mass, own[1].mass))) + 1;
        write_left(&staged.distances[0].x, 2 * lane, seen[0], square[0] + eps2);
        write_left(&staged.distances[0].x, 2 * lane + 1, seen[1], square[1] + eps2);
        write_pulls(staged.pulls, lane, seen, power_of_two(-own_length), power_of_two(-own_mass));
        __syncwarp();
        float4 left[4][2];
        uint2 own_pulls[4];
        float far[4][2] = {};
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
            left[tile][0] = staged.distances[64 * tile + 2 * lane];
            left[tile][1] = staged.distances[64 * tile + 2 * lane + 1];
            own_pulls[tile] = read_pulls(staged.pulls, tile, group, part);
        }
#endif
        for (; unit < row_end; ++unit) {
            const int j_block = i_block + unit - begin;
            const Body other[2] = {bodies[j_block * width + 2 * lane], bodies[j_block * width + 2 * lane + 1]};
            __syncwarp();
#if __CUDA_ARCH__ >= 800
#pragma unroll
            for (int k = 0; k < 2; ++k) {
                seen[k] = Body{other[k].x - middle_x, other[k].y - middle_y, other[k].z - middle_z, other[k].mass};
                square[k] = seen[k].x * seen[k].x + (seen[k].y * seen[k].y + seen[k].z * seen[k].z);
            }
            const float nearest = smallest_of_warp(min(square[0], square[1]));
            const float furthest = largest_of_warp(max(square[0], square[1]));
            // Within a factor of 64 all w fit into FP16.
            if (j_block > i_block && nearest > separation * separation * radius2 && furthest < 4096 * (nearest + eps2)) {
                const int length = exponent_of(nearest + eps2) >> 1;
                const int mass = exponent_of(largest_of_warp(max(other[0].mass, other[1].mass))) + 1;
                write_right(staged.distances, 2 * lane, seen[0], square[0], power_of_two(-2 * length));
                write_right(staged.distances, 2 * lane + 1, seen[1], square[1], power_of_two(-2 * length));
                write_pulls(staged.pulls, lane, seen, power_of_two(-length), power_of_two(-mass));
                __syncwarp();
                const bool is_mass = part == 3;
                const float cube = power_of_two(-3 * length);
                const float on_j = cube * power_of_two(own_mass) * (is_mass ? 1.0f : power_of_two(own_length));
                const float half_back = 0.5f * power_of_two(2 * length);
                float on_i[4][4] = {};
#pragma unroll 1
                for (int tile_j = 0; tile_j < 4; ++tile_j) {
                    const float4 first = staged.distances[place(16 * tile_j + group, part)];
                    const float4 second = staged.distances[place(16 * tile_j + group + 8, part)];
                    const uint2 other_pulls = read_pulls(staged.pulls, tile_j, group, part);
                    float of_j[4] = {};
#pragma unroll
                    for (int tile = 0; tile < 4; ++tile) {
                        float w[2][4] = {};
                        multiply_tf32(w[0], left[tile][0], first.x, first.y);
                        multiply_tf32(w[0], left[tile][1], first.z, first.w);
                        multiply_tf32(w[1], left[tile][0], second.x, second.y);
                        multiply_tf32(w[1], left[tile][1], second.z, second.w);
                        unsigned kept[4], rest[4];
#pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            // Columns of the first eight and the second eight bodies of J, rows above and below.
                            float& a = w[k / 2][k % 2 * 2];
                            float& b = w[k / 2][k % 2 * 2 + 1];
                            a = inverse_sqrt(a);
                            b = inverse_sqrt(b);
                            a = a * a * a;
                            b = b * b * b;
                            kept[k] = pack(a, b);
                            if (TERMS == 2) rest[k] = pack_rest(kept[k], a, b);
                        }
                        multiply_f16(on_i[tile], kept[0], kept[1], kept[2], kept[3], other_pulls);
                        if (TERMS == 2) multiply_f16(on_i[tile], rest[0], rest[1], rest[2], rest[3], other_pulls);
#pragma unroll
                        for (int k = 0; k < 4; ++k) {
                            kept[k] = transposed(kept[k]);
                            if (TERMS == 2) rest[k] = transposed(rest[k]);
                        }
                        multiply_f16(of_j, kept[0], kept[2], kept[1], kept[3], own_pulls[tile]);
                        if (TERMS == 2) multiply_f16(of_j, rest[0], rest[2], rest[1], rest[3], own_pulls[tile]);
                    }
                    // A lane has component `part` of bodies `group` and group + 8; the fourth is sum w m.
                    const float up = (of_j[0] + of_j[1]) * on_j;
                    const float down = (of_j[2] + of_j[3]) * on_j;
                    const float up_mass = __shfl_sync(0xffffffff, up, lane | 3) * half_back;
                    const float down_mass = __shfl_sync(0xffffffff, down, lane | 3) * half_back;
                    real* const to = &home[j_block * width + 16 * tile_j + group].ax + part;
                    if (!is_mass) {
                        // first.x + first.y is -2 x_j times the scale.
                        atomicAdd(to, up + (first.x + first.y) * up_mass);
                        atomicAdd(to + 8 * (sizeof(Sums) / sizeof(real)), down + (second.x + second.y) * down_mass);
                    }
                }
                const float back = cube * power_of_two(mass) * (is_mass ? 1.0f : power_of_two(length));
#pragma unroll
                for (int tile = 0; tile < 4; ++tile) {
                    far[tile][0] += (on_i[tile][0] + on_i[tile][1]) * back;
                    far[tile][1] += (on_i[tile][2] + on_i[tile][3]) * back;
                }
                continue;
            }
#endif
            staged.others[2 * lane] = other[0];
            staged.others[2 * lane + 1] = other[1];
            __syncwarp();
            pull_both(near, own, staged.others, eps2);
            if (j_block > i_block) {
                Sums theirs[2] = {};
                pull_both(theirs, other, staged.own, eps2);
                add_atomically(home + j_block * width + 2 * lane, theirs[0]);
                add_atomically(home + j_block * width + 2 * lane + 1, theirs[1]);
            }
        }
        add_atomically(home + i_block * width + 2 * lane, near[0]);
        add_atomically(home + i_block * width + 2 * lane + 1, near[1]);
#if __CUDA_ARCH__ >= 800
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
            const float up_mass = __shfl_sync(0xffffffff, far[tile][0], lane | 3);
            const float down_mass = __shfl_sync(0xffffffff, far[tile][1], lane | 3);
            real* const to = &home[i_block * width + 16 * tile + group].ax + part;
            if (part < 3) {
                const float x_up = left[tile][0].x + left[tile][1].x;
                const float x_down = left[tile][0].y + left[tile][1].y;
                atomicAdd(to, far[tile][0] - x_up * up_mass);
                atomicAdd(to + 8 * (sizeof(Sums) / sizeof(real)), far[tile][1] - x_down * down_mass);
            }
        }
#endif
    }
}
#elif KERNEL == 1
// Put the bodies into their blocks and clear the sums; places without a body get one without mass at the last one's.
extern "C" __global__ void __launch_bounds__(P)
    tensor_gather(const Body* __restrict__ bodies, const int* __restrict__ order, Body* __restrict__ placed,
                  Sums* __restrict__ sums, int n, int places, int copies) {
    const int k = blockIdx.x * P + threadIdx.x;
    if (k >= places) return;
    Body own = bodies[order[min(k, n - 1)]];
    if (k >= n) own.mass = 0;
    placed[k] = own;
    for (int copy = 0; copy < copies; ++copy) sums[static_cast<long long>(copy) * places + k] = Sums{};
}
#else
extern "C" __global__ void __launch_bounds__(P)
    tensor_scatter(Sums* __restrict__ accelerations, const int* __restrict__ order, const Sums* __restrict__ sums,
                   int n, int places, int copies) {
    const int k = blockIdx.x * P + threadIdx.x;
    if (k >= n) return;
    Sums total = {};
    for (int copy = 0; copy < copies; ++copy) add(total, sums[static_cast<long long>(copy) * places + k]);
    accelerations[order[k]] = total;
}
#endif
