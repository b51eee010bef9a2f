// Find the weights of tensor in FP16: CUBE 16 of its kernel.
//
// Expected: for each two pairs, two products of pairs of FP16 numbers take the place of four products in float32.
//
// Global loads per body: n / (64 * R) of 16 bytes. Shapes and units as in tensor.
#include "tensor.cu"
