// Octree cells from sorted keys, every body at once.
//
// A cell of level l is a run of bodies whose keys agree in l digits. A cell with more than MOST bodies is divided,
// unless its level is BITS. Body k begins a cell of level l where its key differs from that of body k - 1 within l
// digits, and that cell is in the tree if the one around it is divided. So the cells that a body begins have levels
// without a gap between, from `least` to `deepest`, and a few keys on both sides of k tell which.
//
// Nodes are numbered level by level, and within a level in the order of their bodies. The children of a node then
// follow one another. The number of a node is a count of cells: of those in lower levels, in earlier blocks of bodies,
// earlier warps, earlier lanes.

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

// Tell which cells body k of n begins; own[-MOST] to own[MOST] are the keys around it.
template <int MOST>
__device__ __forceinline__ Begun begun_by(const Key* own, int k, int n) {
    const int above = k > 0 ? equal_digits(own[-1], own[0]) : 0;
    const int behind = min(MOST, n - 1 - k);
    if (above == BITS) return Begun{1, 0, 0};
    if (1 + run(own, -1, min(MOST, k), above) + run(own, 1, behind, above) <= MOST) return Begun{1, 0, 0};
    const int divided = behind == MOST ? equal_digits(own[0], own[MOST]) : -1;
    const int deepest = max(above + 1, min(BITS, divided + 1));
    return Begun{static_cast<short>(above + 1), static_cast<short>(deepest), 1 + run(own, 1, behind, deepest)};
}

// Return the cells of a level that begin in a warp, a bit for each lane.
__device__ __forceinline__ unsigned cells_in_warp(const Begun& begun, int level) {
    return __ballot_sync(0xffffffff, begun.least <= level && level <= begun.deepest);
}
