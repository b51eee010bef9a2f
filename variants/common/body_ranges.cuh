// Ranges of bodies, of which each lane of a warp has one, perhaps empty: all their bodies in a row, lane after lane.
struct BodyRanges {
    int origin;  // where bodies of this lane's range are, less their place in the row
    int up_to;   // where this lane's range ends in the row
    int all;     // bodies in the row

    // All lanes have to call it.
    __device__ __forceinline__ BodyRanges(int begin, int count) {
        up_to = inclusive_scan(count);
        all = broadcast(up_to, 31);
        origin = begin - (up_to - count);
    }

    // Return the body at a place in the row, which each lane has its own of, or one without mass beyond the end.
    __device__ __forceinline__ Body at(const Body* __restrict__ bodies, int place) const {
        // The range of that place is the first that ends behind it.
        int lane = 0;
#pragma unroll
        for (int step = 16; step > 0; step >>= 1) {
            if (__shfl_sync(whole_warp, up_to, lane + step - 1) <= place) lane += step;
        }
        const int k = __shfl_sync(whole_warp, origin, lane) + place;
        return place < all ? bodies[k] : Body{};
    }
};
