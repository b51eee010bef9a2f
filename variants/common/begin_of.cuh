// Divide `units` units of work into `parts` parts that differ in length by one unit at most; return the first unit of a
// part.
__device__ __forceinline__ int begin_of(int part, int parts, int units) {
    const int each = units / parts;
    return part * each + part * (units - parts * each) / parts;
}
