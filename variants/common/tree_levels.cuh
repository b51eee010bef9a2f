// Octree cells from sorted keys, every body at once.
//
// A cell of level l is a run of bodies whose keys agree in l digits. A cell with more than LEAF bodies is divided,
// unless its level is BITS. Body k begins a cell of level l where its key differs from that of body k - 1 within l
// digits, and that cell is in the tree if the one around it is divided. So the cells that a body begins have levels
// without a gap between, from `least` to `deepest`, and a few keys on both sides of k tell which.
//
// Nodes are numbered level by level, and within a level in the order of their bodies. The children of a node then
// follow one another. The number of a node is a count of cells: of those in lower levels, in earlier blocks of bodies,
// earlier warps, earlier lanes.

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

// What a walk reads of a node beside its mass: the distance that decides whether it is opened (tree_moments.cuh), and a
// leaf's `count` bodies from `begin` on, or -count children from node `begin` on.
struct __align__(16) Link {
    real reach;
    int begin, count;
};

// Count the bodies next to k, at most `most` of them, whose keys agree with its own in `digits` digits.
__device__ __forceinline__ int run(const Key* own, int step, int most, int digits) {
    int least = 0;
    while (least < most) {
        const int middle = (least + most + 1) / 2;
        if (equal_digits(own[0], own[step * middle]) >= digits) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    return least;
}

// Tell which cells body k of n begins; own[-LEAF] to own[LEAF] are the keys around it.
__device__ __forceinline__ Begun begun_by(const Key* own, int k, int n) {
    const int above = k > 0 ? equal_digits(own[-1], own[0]) : 0;
    const int behind = min(LEAF, n - 1 - k);
    if (above == BITS) return Begun{1, 0, 0};
    if (1 + run(own, -1, min(LEAF, k), above) + run(own, 1, behind, above) <= LEAF) return Begun{1, 0, 0};
    const int divided = behind == LEAF ? equal_digits(own[0], own[LEAF]) : -1;
    const int deepest = max(above + 1, min(BITS, divided + 1));
    return Begun{static_cast<short>(above + 1), static_cast<short>(deepest), 1 + run(own, 1, behind, deepest)};
}

// Return the cells of a level that begin in a warp, a bit for each lane.
__device__ __forceinline__ unsigned cells_in_warp(const Begun& begun, int level) {
    return __ballot_sync(0xffffffff, begun.least <= level && level <= begun.deepest);
}
