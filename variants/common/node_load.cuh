// Read a node with the widest loads its alignment permits; the compiler does not join loads of different types.
__device__ __forceinline__ StoredNode load(const StoredNode* from) {
    StoredNode node;
#if COMPACT || defined(FLOAT64)
    typedef int4 Word;
#else
    typedef int2 Word;
#endif
#pragma unroll
    for (int k = 0; k < int(sizeof(StoredNode) / sizeof(Word)); ++k) {
        reinterpret_cast<Word*>(&node)[k] = reinterpret_cast<const Word*>(from)[k];
    }
    return node;
}
