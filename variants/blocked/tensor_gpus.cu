// Deal the pairs of tensor out over the GPUs of a host, each of which orders the bodies for itself.
//
// Against tensor: a row of the triangle of pairs of blocks and its partner form a line, and all lines have the same
// number of pairs. GPU k takes lines k, k + gpus, and so on: those next to each other have blocks of about the same
// radius, and so as many near pairs. The kernel of tensor has these two numbers as its arguments. Before it each GPU
// reads the bodies of the first one (begin_share), and orders them for itself, which takes less than to send the order;
// after it the first reads the sums of all through peer access and adds them up (add_shares). Expected: 1 / gpus of the
// time of the pairs, the whole time of the ordering, and some 30 microseconds for the two transfers and their events.
//
// Global loads per body: n / (64 * R) of 16 bytes, on all GPUs together. Shapes and units as in tensor.
#include "several.cuh"
#include "tensor.cu"
