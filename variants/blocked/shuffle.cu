// Pass bodies around the warp by shuffles instead of staging them in shared memory.
//
// Against register_blocked: each lane loads one of 32 bodies and passes it to all lanes in its turn, so there is no
// tile and no barrier of the block. Expected: slower. A shuffle moves four bytes and takes an issue slot, so a body
// takes four slots where a load from shared memory takes one: 4 / R slots per interaction instead of 1 / R. What this
// saves, barriers and shared memory, costs little with R bodies per thread. A block has P threads for P * R bodies.
//
// RESIDENT: blocks per multiprocessor for which the compiler has to leave registers. UNROLL: bodies per iteration of
// the loop.
//
// Global loads per body: n / (32 * R) of 16 bytes, because each warp loads for itself. bodies[i] = x, y, z, mass;
// accelerations[i] = x, y, z, 0; n rows each. Lanes beyond the last body pass one of mass 0.
#include "warp.cuh"

static_assert(32 % UNROLL == 0, "unroll has to divide the 32 bodies of a warp");

extern "C" __global__ void __launch_bounds__(P, RESIDENT)
    shuffle(const Body* __restrict__ bodies, Sums* __restrict__ accelerations, int n, real eps2) {
    const int lane = threadIdx.x % 32;
    const int i = blockIdx.x * (P * R) + threadIdx.x;
    Body own[R];
    Sums sums[R] = {};
#pragma unroll
    for (int b = 0; b < R; ++b) own[b] = bodies[min(i + b * P, n - 1)];
    for (int first = 0; first < n; first += 32) {
        const Body mine = first + lane < n ? bodies[first + lane] : Body{};
#pragma unroll 1
        for (int k = 0; k < 32; k += UNROLL) {
#pragma unroll
            for (int step = 0; step < UNROLL; ++step) {
                Body j;
                j.x = broadcast(mine.x, k + step);
                j.y = broadcast(mine.y, k + step);
                j.z = broadcast(mine.z, k + step);
                j.mass = broadcast(mine.mass, k + step);
#pragma unroll
                for (int b = 0; b < R; ++b) interact(sums[b], own[b], j, eps2);
            }
        }
    }
#pragma unroll
    for (int b = 0; b < R; ++b) {
        if (i + b * P < n) accelerations[i + b * P] = sums[b];
    }
}
