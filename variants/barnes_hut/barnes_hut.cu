// Walk a tree without a stack: far nodes act as their centres of mass, near nodes are opened.
//
// A node stores its first child and the node to continue with after it (`next`), so a walk is a loop over one number.
// Against all pairs: a body meets about a thousand nodes instead of all bodies. A step is limited by latency instead of
// arithmetic: the next node is known only when the present one has been compared, so a thread has one load in flight,
// and many warps are needed to hide it.
//
// WARP 0: each thread walks by itself (Bodin 2026). Threads of a warp at different nodes load from different addresses,
// and diverge where some open a node and others accept it; bodies in Morton order are neighbours and mostly agree. WARP
// 1: the warp votes, and opens a node if one of its bodies has to (Burtscher & Pingali 2011). All threads are at one
// node, one load serves all of them, and nothing diverges. The walk meets more nodes, and its sums are more accurate.
//
// COMPACT 1: a node has 32 bytes, one sector (float64: 48); 0: 40 bytes (float64: 64), and the opening distance is
// computed at every visit. TOP > 0: the first `top` <= TOP nodes, the upper levels, are kept in shared memory. SORTED
// 1: bodies are in Morton order, body k of the tree is bodies[k], and its acceleration goes to row order[k]; 0: body k
// of the tree is bodies[order[k]], and thread i walks for bodies[i]. DIM 2: all z are 0.
//
// bodies[i] = x, y, z, mass, n rows; nodes as nodes.py writes them; order: n numbers; accelerations[i] = x, y, z, 0, n
// rows; reach: distance within which a cell is opened, in widths of the cell (not read where COMPACT is 1).

#include "node.cuh"

// Bodies of a leaf that are read ahead; in float64 several would not fit into the registers.
constexpr int unroll = sizeof(real) == 4 ? 4 : 1;

// Tell by the squared distance of a node whether it has to be opened; written so that a NaN opens it.
__device__ __forceinline__ bool too_near(const StoredNode& node, real r2, real reach) {
#if COMPACT
    return !(float(r2) > node.open2);
#else
    const real nearest = node.width * reach + node.offset;
    return !(r2 > nearest * nearest);
#endif
}

__device__ __forceinline__ bool is_leaf(const StoredNode& node) {
#if COMPACT
    return node.count > 0;
#else
    return node.children < 0;
#endif
}

__device__ __forceinline__ int first_child(const StoredNode& node) {
#if COMPACT
    return node.begin;
#else
    return node.children;
#endif
}

__device__ __forceinline__ int first_body(const StoredNode& node) {
#if COMPACT
    return node.begin;
#else
    return node.first;
#endif
}

#include "node_load.cuh"

extern "C" __global__ void __launch_bounds__(P)
    barnes_hut(const Body* __restrict__ bodies, const StoredNode* __restrict__ nodes, const int* __restrict__ order,
               Sums* __restrict__ accelerations, int n, int top, real eps2, real reach) {
#if TOP
    __shared__ StoredNode upper[TOP];
    for (int k = threadIdx.x; k < top; k += P) upper[k] = load(nodes + k);
    __syncthreads();
#endif
    const int i = blockIdx.x * P + threadIdx.x;
    // A warp votes with all its threads: those beyond the last body repeat it and write nothing.
    Body self = bodies[min(i, n - 1)];
    if (DIM == 2) self.z = 0;
    Sums sums = {};
    int at = 0;
    while (at >= 0) {
#if TOP
        const StoredNode node = at < top ? upper[at] : load(nodes + at);
#else
        const StoredNode node = load(nodes + at);
#endif
        const real dx = node.x - self.x;
        const real dy = node.y - self.y;
        const real dz = DIM == 3 ? node.z - self.z : 0;
        const real r2 = dx * dx + (dy * dy + dz * dz);
        bool open = too_near(node, r2, reach);
        if (WARP) open = __any_sync(0xffffffff, open);
        if (!open) {
            const real inverse = inverse_sqrt(r2 + eps2);
            const real strength = node.mass * inverse * (inverse * inverse);
            sums.ax += strength * dx;
            sums.ay += strength * dy;
            sums.az += strength * dz;
            at = node.next;
        } else if (!is_leaf(node)) {
            at = first_child(node);
        } else {
            const int begin = first_body(node);
#pragma unroll unroll
            for (int k = begin; k < begin + node.count; ++k) {
                Body other = bodies[SORTED ? k : order[k]];
                if (DIM == 2) other.z = 0;
                interact(sums, self, other, eps2);
            }
            at = node.next;
        }
    }
    if (i < n) accelerations[SORTED ? order[i] : i] = sums;
}
