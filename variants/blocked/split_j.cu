// Split the source bodies over blocks as well, so that few bodies fill a device.
//
// Against register_blocked: the grid is blocks of P * R bodies times `parts`, and each block sums over its part of the
// sources. Expected: faster at small N, where R bodies per thread leave multiprocessors idle; at large N the speed of
// register_blocked, with a shorter last wave of blocks.
//
// A block writes its sums to partial[part][body]. The last block to finish for the same bodies adds up the parts,
// always in the same order, so that results are reproducible. A counter per block of bodies tells which block is the
// last; it is zero again afterwards. Parts begin at multiples of UNROLL bodies. RESIDENT: blocks per multiprocessor for
// which the compiler has to leave registers.
//
// Global loads per body: n / (P * R) of 16 bytes, and `parts` sums. bodies[i] = x, y, z, mass; accelerations[i] = x, y,
// z, 0; n rows each; partial: parts * n rows (not used with one part); arrived: one number per block of bodies, zero
// before the launch.
static_assert(P % UNROLL == 0, "unroll has to divide p: the loop over a tile has no remainder");

#include "begin_of.cuh"
#include "tile_rows.cuh"

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    split_j(const Body* __restrict__ bodies, Sums* accelerations, int n, real eps2, int parts, Sums* partial,
            real* arrived) {
    __shared__ Row tile[P];
    __shared__ bool last;
    const int thread = threadIdx.x;
    const int block = blockIdx.x / parts;
    const int part = blockIdx.x - block * parts;
    const int i = block * (P * R) + thread;
    const int units = (n + UNROLL - 1) / UNROLL;
    const int begin = begin_of(part, parts, units) * UNROLL;
    const int end = begin_of(part + 1, parts, units) * UNROLL;
    Body own[R];
    Sums sums[R] = {};
#pragma unroll
    for (int b = 0; b < R; ++b) own[b] = bodies[min(i + b * P, n - 1)];
    for (int first = begin; first < end; first += P) {
        if (first + thread < end) tile[thread] = first + thread < n ? row_of(bodies[first + thread]) : Row{};
        __syncthreads();
        pull_rows(sums, own, tile, min(P, end - first), eps2);
        __syncthreads();
    }
    Sums* const found = parts == 1 ? accelerations : partial + static_cast<long long>(part) * n;
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (i + b * P < n) found[i + b * P] = sums[b];
    }
    if (parts == 1) return;
    __threadfence();
    __syncthreads();
    if (thread == 0) {
        last = atomicAdd(arrived + block, real(1)) == real(parts - 1);
        if (last) arrived[block] = 0;
    }
    __syncthreads();
    if (!last) return;
    __threadfence();
    for (int k = i; k < min(n, (block + 1) * (P * R)); k += P) {
        Sums total = {};
#pragma unroll 4
        for (int other = 0; other < parts; ++other) add(total, partial[static_cast<long long>(other) * n + k]);
        accelerations[k] = total;
    }
}
