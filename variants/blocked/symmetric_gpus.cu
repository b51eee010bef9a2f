// Deal the pairs of symmetric out over the GPUs of a host, each of which adds them up for all bodies.
//
// Against symmetric: each block meets half of the ring of blocks in groups of 32 bodies. GPU k takes groups first_k <=
// group < first_{k + 1} of every ring, so that all of them have the same number of warps with equally long parts, and
// every pair is met once. The kernel of symmetric has these bounds as its arguments and stays as it is. Before it each
// GPU reads the bodies of the first one and clears its own sums (begin_share); after it the first reads the sums of all
// through peer access and adds them up (add_shares): n rows of bodies to each GPU, and `copies` times n rows of sums
// back. Expected: 1 / gpus of the time, and some 30 microseconds for the two transfers and their events.
//
// Global loads per body: n / (64 * R) of 16 bytes, on all GPUs together. Shapes and units as in symmetric.
#ifdef KERNEL_symmetric
#include "symmetric.cu"
#endif
#include "several.cuh"
