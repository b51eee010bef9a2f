// Octree cells from sorted keys, every body at once.
//
// A cell of level l is a run of bodies whose keys agree in l digits. A cell with more than LEAF bodies is divided. Body
// k begins a cell of level l where its key differs from that of body k - 1 within l digits, and that cell is in the
// tree if the one around it is divided. So the cells that a body begins have levels without a gap between, from `least`
// to `deepest`, and a few keys on both sides of k tell which.
//
// Bodies that share all BITS digits may be any number, at one place for example. They are divided by their ranks among
// each other, whose octal digits, RANKS of them, follow those of the key: no leaf has more than LEAF bodies.
//
// Nodes are numbered level by level, and within a level in the order of their bodies. The children of a node then
// follow one another. The number of a node is a count of cells: of those in lower levels, in earlier blocks of bodies,
// earlier warps, earlier lanes.

// The low bits of a rank that are no digits: so many bodies are not more than LEAF.
__host__ __device__ constexpr int bits_in(int number) {
    return number < 2 ? 0 : 1 + bits_in(number / 2);
}
constexpr int rank_shift = bits_in(LEAF);

// Each warp of a block counts the cells that begin in it.
constexpr int warps_of_block = BLOCK / 32;

// A body among those around it in the order: own[0] is its key, `rank` its place among bodies of the same key.
struct Ranked {
    const Key* own;
    int rank;

    // Count the leading digits that it shares with the body `offset` after it.
    __device__ __forceinline__ int equal_digits_with(int offset) const {
        if (own[0] != own[offset]) return equal_digits(own[0], own[offset]);
        const unsigned differing = static_cast<unsigned>(rank ^ (rank + offset)) >> rank_shift;
        return differing ? BITS + (__clz(differing) - (32 - 3 * RANKS)) / 3 : levels;
    }
};

// Find the rank of body k, which is below LEAF where no more than LEAF bodies around it have its key.
__device__ __forceinline__ int rank_of(const Key* own, const Key* keys, const long long* order, int k) {
    const int most = min(LEAF, k);
    int before = 0;
    while (before < most && own[-before - 1] == own[0]) ++before;
    if (before < LEAF) return before;
    int least = -1, first = k - LEAF;  // body `least` has another key, body `first` has this one
    while (least + 1 < first) {
        const int middle = least + (first - least) / 2;
        if (keys[order[middle]] == own[0]) {
            first = middle;
        } else {
            least = middle;
        }
    }
    return k - first;
}

// Count the bodies next to a body, at most `most` of them, that share `digits` digits with it.
__device__ __forceinline__ int run(const Ranked& body, int step, int most, int digits) {
    int least = 0;
    while (least < most) {
        const int middle = (least + most + 1) / 2;
        if (body.equal_digits_with(step * middle) >= digits) {
            least = middle;
        } else {
            most = middle - 1;
        }
    }
    return least;
}

// Tell which cells body k of n begins; own[-LEAF] to own[LEAF] are the keys around it.
__device__ __forceinline__ Begun begun_by(const Ranked& body, int k, int n) {
    const int above = k > 0 ? body.equal_digits_with(-1) : 0;
    const int behind = min(LEAF, n - 1 - k);
    if (above == levels) return Begun{1, 0, 0};
    if (1 + run(body, -1, min(LEAF, k), above) + run(body, 1, behind, above) <= LEAF) return Begun{1, 0, 0};
    const int divided = behind == LEAF ? body.equal_digits_with(LEAF) : -1;
    const int deepest = max(above + 1, min(levels, divided + 1));
    return Begun{static_cast<short>(above + 1), static_cast<short>(deepest), 1 + run(body, 1, behind, deepest)};
}

// Tell whether a body `after` body k, which begins a cell of a level, is in that cell too.
__device__ __forceinline__ bool is_in_cell(Key begins, Key other, int after, int level) {
    if (level <= BITS) return equal_digits(begins, other) >= level;
    return begins == other && after >> (3 * (levels - level) + rank_shift) == 0;
}

// Return the cells of a level that begin in a warp, a bit for each lane.
__device__ __forceinline__ unsigned cells_in_warp(const Begun& begun, int level) {
    return lanes_where(begun.least <= level && level <= begun.deepest);
}
