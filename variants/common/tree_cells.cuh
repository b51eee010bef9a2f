// What the kernels that build a tree hand to each other, and to a walk.

// The levels of the cells that a body begins, none where least > deepest, and the bodies of the one of level `deepest`.
struct __align__(8) Begun {
    short least, deepest;
    int bodies;
};

// How a node is bound to the tree: what its moments are computed from.
struct __align__(16) Bound {
    int first;   // body
    int bodies;  // of a leaf; 0 of a divided cell
    int level, parent;
};

// What a walk reads of a node beside its mass: the distance that decides whether it is opened (tree_moments.cuh), what
// its error grows with, and a leaf's `count` bodies from `begin` on, or -count children from node `begin` on.
struct __align__(16) Link {
    real reach, weight;
    int begin, count;
};

// The second moments about the centre of mass for a unit of mass, times minus three, and half of the trace of that.
struct __align__(16) Quadrupole {
    real xx, xy, xz, yy, yz, zz, half_trace, nothing;
};

// What rounding left out of a centre of mass. Bodies of a small cell far from the origin lie as close together as
// numbers do there: then it is as large as the distances in the cell.
struct __align__(16) Rest {
    real x, y, z, nothing;
};

struct Offset {
    real x, y, z;
};

// Return the way from one centre of mass to another, or from or to a body, which has no rest.
__device__ __forceinline__ Offset way(const Body& from, const Rest& from_rest, const Body& to, const Rest& to_rest) {
    return Offset{(to.x - from.x) + (to_rest.x - from_rest.x), (to.y - from.y) + (to_rest.y - from_rest.y),
                  (to.z - from.z) + (to_rest.z - from_rest.z)};
}

__device__ __forceinline__ real squared_length(const Offset& of) {
    return of.x * of.x + (of.y * of.y + of.z * of.z);
}

__device__ __forceinline__ real squared_distance(const Body& from, const Body& to) {
    return squared_length(way(from, Rest{}, to, Rest{}));
}

// Read what another multiprocessor has just written, word by word, past the cache that does not see it.
template <class Row>
__device__ __forceinline__ Row fresh(const Row* from) {
    Row row;
#pragma unroll
    for (int k = 0; k < static_cast<int>(sizeof(Row) / sizeof(int4)); ++k) {
        reinterpret_cast<int4*>(&row)[k] = __ldcg(reinterpret_cast<const int4*>(from) + k);
    }
    return row;
}
