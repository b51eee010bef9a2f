// The cube that holds all bodies, found in two steps: each block of the first kernel leaves the box of its bodies, and
// every block of the second joins those boxes by itself.

// The corner with the least coordinates, and the width. `stronger`: where all bodies fill a smaller or a larger cube
// than in the last evaluation, as when they are in other units, by how much the same bodies pull each other more at
// that scale.
struct __align__(16) Cube {
    real x, y, z, width;
    real stronger, unused[3];
};

struct Box {
    real least[3], most[3];
};

__device__ __forceinline__ Box box_of(const Body& body) {
    return Box{{body.x, body.y, body.z}, {body.x, body.y, body.z}};
}

__device__ __forceinline__ void join(Box& box, const Box& other) {
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) {
        box.least[axis] = min(box.least[axis], other.least[axis]);
        box.most[axis] = max(box.most[axis], other.most[axis]);
    }
}

// Join the boxes of a warp's threads; all of them get the result.
__device__ __forceinline__ Box joined_in_warp(Box box) {
#pragma unroll
    for (int apart = 16; apart > 0; apart >>= 1) {
        Box other;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            other.least[axis] = __shfl_xor_sync(0xffffffff, box.least[axis], apart);
            other.most[axis] = __shfl_xor_sync(0xffffffff, box.most[axis], apart);
        }
        join(box, other);
    }
    return box;
}

// Join the boxes of a block's threads; all of them get the result.
template <int THREADS>
__device__ __forceinline__ Box joined_in_block(Box box) {
    __shared__ Box of_warps[THREADS / 32];
    box = joined_in_warp(box);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = box;
    __syncthreads();
    box = of_warps[0];
#pragma unroll
    for (int warp = 1; warp < THREADS / 32; ++warp) join(box, of_warps[warp]);
    return box;
}

__device__ __forceinline__ Cube cube_around(const Box& box) {
    real width = 0;
#pragma unroll
    for (int axis = 0; axis < 3; ++axis) width = max(width, box.most[axis] - box.least[axis]);
    return Cube{box.least[0], box.least[1], box.least[2], width, 1};
}
