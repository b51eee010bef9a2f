// Divide work into parts of nearly equal length: `parts` parts of `units` units, each as long as the others or one unit
// longer. Returns the first unit of a part.
__device__ __forceinline__ int begin_of(int part, int parts, int units) {
    const int each = units / parts;
    return part * each + part * (units - parts * each) / parts;
}
