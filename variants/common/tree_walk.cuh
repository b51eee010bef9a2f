// What a warp does together while it walks a tree for the bodies that its lanes hold.

constexpr int staged_rows = 32 + 4;  // and what fills the last four up

// The box around neighbouring bodies of a walk, and what OPENING 2 judges a cell by for them: D^2 has to be more than
// `by_reach` times its reach squared, and than `by_pull` times its weight (tree_moments.cuh).
struct __align__(16) GroupBox {
    real x, y, z, by_reach;  // the middle
    real half_x, half_y, half_z, by_pull;
};

constexpr int lanes_of_box = 32 / BOXES;

// Return which box the lane's b-th body is in.
__device__ __forceinline__ int box_of_lane(int b) {
    return b * BOXES + lane_of_thread() / lanes_of_box;
}

// Tell whether the lane is the one that writes that box.
__device__ __forceinline__ bool writes_box() {
    return lane_of_thread() % lanes_of_box == 0;
}

// A warp's own part of shared memory.
struct WarpRoom {
    GroupBox boxes[R * BOXES];
    Body staged[staged_rows];
#if QUADRUPOLE
    Quadrupole seconds[staged_rows];
#endif
    NodeStack stack;
};

__device__ __forceinline__ GroupBox group_box_of(const Body& own) {
    Box box = box_of(own);
#pragma unroll
    for (int apart = lanes_of_box / 2; apart > 0; apart >>= 1) {
        Box other;
#pragma unroll
        for (int axis = 0; axis < 3; ++axis) {
            other.least[axis] = __shfl_xor_sync(whole_warp, box.least[axis], apart);
            other.most[axis] = __shfl_xor_sync(whole_warp, box.most[axis], apart);
        }
        join(box, other);
    }
    const real one_half = static_cast<real>(0.5);
    GroupBox found = {};
    found.x = one_half * (box.least[0] + box.most[0]);
    found.y = one_half * (box.least[1] + box.most[1]);
    found.z = one_half * (box.least[2] + box.most[2]);
    found.half_x = box.most[0] - found.x;
    found.half_y = box.most[1] - found.y;
    found.half_z = box.most[2] - found.z;
    return found;
}

// What the weight of a cell is compared with where it may be wrong by the acceleration `pull`.
__device__ __forceinline__ real by_pull_of(real pull) {
#if QUADRUPOLE
    return exp2(static_cast<real>(-0.4) * log2(pull));
#else
    return inverse_sqrt(pull);
#endif
}

// Return what `by_pull` would be where the acceleration is half as strong.
__device__ __forceinline__ real by_half_the_pull(real by_pull) {
    return static_cast<real>(QUADRUPOLE ? 1.3195079 : 1.4142136) * by_pull;
}

// The bodies that a warp walks for, R of each lane: of the group that begins at body `first` of the n in their order,
// those from `start` on and before `stop`.
struct Walkers {
    int share;  // which of the WARPS warps that walk for them this one is
    int first, start, stop, n;
    Body from;  // the first of them: as seen from here, cells act on all
    Body own[R];

    // Return the place of a lane's b-th body among the n: where that is not one of these, the nearest.
    __device__ __forceinline__ int place(int b) const {
        return min(first + min(max(b * 32 + lane_of_thread(), start), stop - 1), n - 1);
    }

    // Tell whether this thread writes what is found for that body: the first of the warps that walk for it does.
    __device__ __forceinline__ bool writes(int b) const {
        const int number = b * 32 + lane_of_thread();
        return share == 0 && number >= start && number < stop && first + number < n;
    }

    __device__ __forceinline__ void read(const Body* __restrict__ sorted) {
#pragma unroll
        for (int b = 0; b < R; ++b) own[b] = sorted[place(b)];
    }
};

// Return the body of another lane, without its mass.
__device__ __forceinline__ Body body_of_lane(const Body& own, int lane) {
    return Body{__shfl_sync(whole_warp, own.x, lane), __shfl_sync(whole_warp, own.y, lane),
                __shfl_sync(whole_warp, own.z, lane), 0};
}

// Return which body of a group is the first that is far `from` one of them, or 32 * R: thousands of times as far as
// eight neighbours of the group are from each other, and as eps is.
__device__ __forceinline__ int first_far(const Body (&own)[R], const Body& from, real eps2) {
    constexpr real times = static_cast<real>(4096) * 4096, none = static_cast<real>(3e38);
    real least = none;
#pragma unroll
    for (int b = 0; b < R; ++b) {
        const real extent2 = warp_max<8>(squared_distance(body_of_lane(own[b], lane_of_thread() & ~7), own[b]));
        if (extent2 > 0) least = min(least, extent2);
    }
    least = warp_min(least);
    const real limit = times * max(least < none ? least : 0, eps2);
    int stop = 32 * R;
#pragma unroll
    for (int b = R - 1; b >= 0; --b) {
        const int far = first_of(lanes_where(squared_distance(from, own[b]) > limit));
        if (far >= 0) stop = b * 32 + far;
    }
    return stop;
}

// Judge by the acceleration `pull`; where none is known it is 0, and the opening angle decides.
__device__ __forceinline__ void judge_by(GroupBox& box, real pull, real inverse_theta) {
    box.by_reach = pull > 0 ? 1 : max(static_cast<real>(1), 4 * (inverse_theta * inverse_theta));
    box.by_pull = pull > 0 ? by_pull_of(pull) : 0;
}

// Return the squared distance of a point from the nearest point of a box.
__device__ __forceinline__ real squared_distance(const Body& point, const GroupBox& box) {
    const real zero = 0;
    const real x = max(abs(point.x - box.x) - box.half_x, zero);
    const real y = max(abs(point.y - box.y) - box.half_y, zero);
    const real z = max(abs(point.z - box.z) - box.half_z, zero);
    return x * x + (y * y + z * z);
}

// Tell whether a cell is far enough from bodies at least so far away, squared; written so that a NaN is near.
__device__ __forceinline__ bool is_far(const Link& link, real reach2, real r2, const GroupBox& box, real eps2) {
#if OPENING == 2
    r2 += eps2;
    return r2 > box.by_reach * reach2 && r2 > box.by_pull * link.weight;
#else
    return r2 > reach2;
#endif
}

// Tell whether a cell has to be opened for the bodies of any box.
__device__ __forceinline__ bool too_near(const Link& link, const Body& centre, const GroupBox* boxes, real eps2) {
    const real reach2 = link.reach * link.reach;
    bool far = true;
#pragma unroll 4
    for (int k = 0; k < R * BOXES; ++k) {
        const GroupBox box = boxes[k];
        const bool is_far_from_box = is_far(link, reach2, squared_distance(centre, box), box, eps2);
        far = far && is_far_from_box;
    }
    return !far;
}

// Tell whether a cell has to be opened for any body of the warp: a box around bodies far from each other may hold what
// is near none of them.
__device__ __forceinline__ bool too_near_a_body(const Link& link, const Body& centre, const Body (&own)[R],
                                                const GroupBox* boxes, real eps2) {
    const real reach2 = link.reach * link.reach;
    bool far = true;
#pragma unroll 1
    for (int lane = 0; lane < 32; ++lane) {
#pragma unroll
        for (int b = 0; b < R; ++b) {
            const real r2 = squared_distance(body_of_lane(own[b], lane), centre);
            const GroupBox box = boxes[b * BOXES + lane / lanes_of_box];
            const bool is_far_from_body = is_far(link, reach2, r2, box, eps2);
            far = far && is_far_from_body;
        }
    }
    return !far;
}

// Return how strongly a mass pulls what is so far from it; within eps, less than that.
__device__ __forceinline__ real contribution_of(real mass, const Offset& at, real eps2) {
    const real r2 = squared_length(at);
    const real inverse = inverse_sqrt(r2 + eps2);
    const real inverse2 = inverse * inverse;
    return mass * inverse2 * (r2 * inverse2);
}

// Add the pulls of `count` rows, filled up with rows without mass to a multiple of four.
__device__ __forceinline__ void add_bodies(Sums (&sums)[R], const Body (&own)[R], const Body* staged, int count,
                                           real eps2) {
#pragma unroll 1
    for (int k = 0; k < count; k += 4) {
#pragma unroll
        for (int next = 0; next < 4; ++next) {
            const Body other = staged[k + next];
#pragma unroll
            for (int b = 0; b < R; ++b) interact(sums[b], own[b], other, eps2);
        }
    }
}

#if QUADRUPOLE
// The pull of a cell: that of its mass, and that of its second moments, softened alike. With D from the body to the
// centre of mass, rho^2 = D^2 + eps^2, N = D / rho and the matrix A of second moments times minus three, it is
// mass / rho^2 (N (1 + (trace A / 2 - 5/2 N A N) / rho^2) + A N / rho^2): 34 instructions and the inverse square root.
__device__ __forceinline__ void pull_of_cell(Sums& sums, const Body& own, const Body& cell, const Quadrupole& second,
                                             real eps2) {
    const real dx = cell.x - own.x;
    const real dy = cell.y - own.y;
    const real dz = cell.z - own.z;
    const real inverse = inverse_sqrt(dx * dx + (dy * dy + (dz * dz + eps2)));
    const real inverse2 = inverse * inverse;
    const real x = dx * inverse;
    const real y = dy * inverse;
    const real z = dz * inverse;
    const real ax = second.xx * x + (second.xy * y + second.xz * z);
    const real ay = second.xy * x + (second.yy * y + second.yz * z);
    const real az = second.xz * x + (second.yz * y + second.zz * z);
    const real along = static_cast<real>(-2.5) * (ax * x + (ay * y + az * z)) + second.half_trace;
    const real pull = cell.mass * inverse2;
    const real inward = 1 + along * inverse2;
    sums.ax += pull * (inward * x + inverse2 * ax);
    sums.ay += pull * (inward * y + inverse2 * ay);
    sums.az += pull * (inward * z + inverse2 * az);
}
#endif

// Add the pulls of `count` accepted cells, filled up likewise.
__device__ __forceinline__ void add_cells(Sums (&sums)[R], const Body (&own)[R], const WarpRoom& room, int count,
                                          real eps2) {
#if QUADRUPOLE
#pragma unroll 1
    for (int k = 0; k < count; k += 2) {
#pragma unroll
        for (int next = 0; next < 2; ++next) {
            const Body cell = room.staged[k + next];
            const Quadrupole second = room.seconds[k + next];
#pragma unroll
            for (int b = 0; b < R; ++b) pull_of_cell(sums[b], own[b], cell, second, eps2);
        }
    }
#else
    add_bodies(sums, own, room.staged, count, eps2);
#endif
}

#if WARPS > 1
// Replace the sums of the block's warps, which hold the same bodies, by those of all of them.
__device__ __forceinline__ void join_sums(Sums (&sums)[R], WarpRoom* rooms) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int b = 0; b < R; ++b) {
        rooms[threadIdx.x / 32].staged[lane] = Body{sums[b].ax, sums[b].ay, sums[b].az, 0};
        __syncthreads();
        sums[b] = Sums{};
#pragma unroll
        for (int warp = 0; warp < WARPS; ++warp) {
            const Body part = rooms[warp].staged[lane];
            sums[b].ax += part.x;
            sums[b].ay += part.y;
            sums[b].az += part.z;
        }
        __syncthreads();
    }
}
#endif
