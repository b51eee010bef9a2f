// The levels of a tree below its root: 1 to BITS are those of the digits of a key (tree_keys.cuh), and RANKS further
// ones divide bodies that have the same key (tree_levels.cuh).
constexpr int levels = BITS + RANKS;
