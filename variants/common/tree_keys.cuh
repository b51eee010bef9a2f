// The place of a body in a cube of 2^BITS cells a side, and the key of that cell along a curve that fills space.
//
// Three bits of a key, a digit, say in which eighth of a cell a body lies: bodies with l equal leading digits share a
// cell of level l, whose width is that of the cube / 2^l. HILBERT 1: the eighths of a cell follow each other along
// Hilbert's curve, so that neighbours in the order are neighbours in space; 0: in Morton's order, which jumps.

#if BITS > 10
typedef unsigned long long Key;
__device__ __forceinline__ int leading_zeros(Key key) {
    return __clzll(key);
}
#else
typedef unsigned int Key;
__device__ __forceinline__ int leading_zeros(Key key) {
    return __clz(key);
}
#endif

struct Cell {
    unsigned x, y, z;
};

__device__ __forceinline__ unsigned cell_along(real distance, real scale) {
    constexpr int last = (1 << BITS) - 1;
    return static_cast<unsigned>(min(max(static_cast<int>(distance * scale), 0), last));
}

// Return the smallest cell that holds a body; all bodies are in one where the cube has no width.
__device__ __forceinline__ Cell cell_of(const Body& body, const Cube& cube) {
    constexpr real most = static_cast<real>(sizeof(real) == 4 ? 1e38 : 1e300);
    real scale = cube.width > 0 ? static_cast<real>(1 << BITS) / cube.width : 0;
    if (!(scale < most)) scale = 0;
    return Cell{cell_along(body.x - cube.x, scale), cell_along(body.y - cube.y, scale),
                cell_along(body.z - cube.z, scale)};
}

// Put two zeros before each of 21 bits.
__device__ __forceinline__ unsigned long long spread(unsigned value) {
    unsigned long long bits = value;
    bits = (bits | bits << 32) & 0x001f00000000ffffull;
    bits = (bits | bits << 16) & 0x001f0000ff0000ffull;
    bits = (bits | bits << 8) & 0x100f00f00f00f00full;
    bits = (bits | bits << 4) & 0x10c30c30c30c30c3ull;
    bits = (bits | bits << 2) & 0x1249249249249249ull;
    return bits;
}

// Exchange the bits of two coordinates below a bit, or invert those of the first (Skilling 2004).
__device__ __forceinline__ void turn(unsigned& first, unsigned& other, unsigned bit) {
    const unsigned below = bit - 1;
    if (other & bit) {
        first ^= below;
    } else {
        const unsigned differing = (first ^ other) & below;
        first ^= differing;
        other ^= differing;
    }
}

__device__ __forceinline__ Key key_of(Cell cell) {
#if HILBERT
#pragma unroll
    for (unsigned bit = 1u << (BITS - 1); bit > 1; bit >>= 1) {
        turn(cell.x, cell.x, bit);
        turn(cell.x, cell.y, bit);
        turn(cell.x, cell.z, bit);
    }
    cell.y ^= cell.x;
    cell.z ^= cell.y;
    unsigned flipped = 0;
#pragma unroll
    for (unsigned bit = 1u << (BITS - 1); bit > 1; bit >>= 1) {
        if (cell.z & bit) flipped ^= bit - 1;
    }
    cell.x ^= flipped;
    cell.y ^= flipped;
    cell.z ^= flipped;
#endif
    return static_cast<Key>(spread(cell.x) << 2 | spread(cell.y) << 1 | spread(cell.z));
}

// Count the leading digits in which two keys agree.
__device__ __forceinline__ int equal_digits(Key one, Key other) {
    constexpr int unused = 8 * static_cast<int>(sizeof(Key)) - 3 * BITS;
    const Key differing = one ^ other;
    return differing ? (leading_zeros(differing) - unused) / 3 : BITS;
}
