// Walk a tree with the first criterion of all, width over distance below theta, each thread by itself.
//
// Against barnes_hut: a node is opened by its width and the distance of its centre of mass alone, wherever in the cell
// the centre lies, and no warp votes. Expected: fewer nodes opened at the same theta and larger errors, most of all
// where a body accepts a cell that contains it.
//
// COMPACT 1: a node has 32 bytes (float64: 48) and the squared distance up to which it is opened; 0: 40 bytes (float64:
// 64) and the width of its cell. TOP > 0: the first `top` <= TOP nodes, the upper levels, are kept in shared memory.
// SORTED 1: bodies are in Morton order, body k of the tree is bodies[k], and its acceleration goes to row order[k]; 0:
// body k of the tree is bodies[order[k]], and thread i walks for bodies[i]. DIM 2: all z are 0.
//
// bodies[i] = x, y, z, mass, n rows; nodes as nodes.py declares them; order: n numbers; accelerations[i] = x, y, z, 0,
// n rows; reach: 1 / theta, distance within which a cell is opened, in widths of the cell (not read where COMPACT is
// 1).

#include "node.cuh"
#include "node_load.cuh"

// Bodies of a leaf that are read ahead; in float64 several would not fit into the registers.
constexpr int unroll = sizeof(real) == 4 ? 4 : 1;

extern "C" __global__ void __launch_bounds__(P)
    barnes_hut_classic(const Body* __restrict__ bodies, const StoredNode* __restrict__ nodes,
                       const int* __restrict__ order, Sums* __restrict__ accelerations, int n, int top, real eps2,
                       real reach) {
#if TOP
    __shared__ StoredNode upper[TOP];
    for (int k = threadIdx.x; k < top; k += P) upper[k] = load(nodes + k);
    __syncthreads();
#endif
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    Body self = bodies[i];
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
        // Written so that a NaN opens the node.
#if COMPACT
        const bool open = !(float(r2) > node.open2);
        const bool leaf = node.count > 0;
        const int child = node.begin, begin = node.begin;
#else
        const bool open = !(r2 > node.width * reach * (node.width * reach));
        const bool leaf = node.children < 0;
        const int child = node.children, begin = node.first;
#endif
        if (!open) {
            const real inverse = inverse_sqrt(r2 + eps2);
            const real strength = node.mass * inverse * (inverse * inverse);
            sums.ax += strength * dx;
            sums.ay += strength * dy;
            sums.az += strength * dz;
            at = node.next;
        } else if (!leaf) {
            at = child;
        } else {
#pragma unroll unroll
            for (int k = begin; k < begin + node.count; ++k) {
                Body other = bodies[SORTED ? k : order[k]];
                if (DIM == 2) other.z = 0;
                interact(sums, self, other, eps2);
            }
            at = node.next;
        }
    }
    accelerations[SORTED ? order[i] : i] = sums;
}
