// A node of a tree as it lies in memory: COMPACT has its opening distance in it, the other is opened by its width.

#if COMPACT
struct __align__(16) StoredNode {
    real x, y, z, mass;
    float open2;             // the squared distance up to which the node is opened
    int begin, next, count;  // a leaf has count bodies from begin on; in an inner node count is 0, begin its child
};
#else
struct __align__(sizeof(real) == 8 ? 16 : 8) StoredNode {
    real x, y, z, mass;
    real width, offset;                // of the cell; of the centre of mass from the cell's centre, or 0
    int children, next, first, count;  // children is -1 in a leaf, whose bodies are count from first on
};
#endif
