// The kernels that build an octree over the bodies in the order of their keys; each has a thread for every body.
//
// tree_box finds the box of the bodies (tree_box.cuh), tree_keys the key of each (tree_keys.cuh). A library sorts the
// keys. tree_order puts the bodies in the order of their keys and finds the cells that each begins (tree_levels.cuh),
// tree_scan adds the numbers of cells up, tree_nodes writes the nodes. Where the nodes do not fit into `capacity`, the
// cells of the last level that fits are leaves, whatever they hold.

#ifdef KERNEL_tree_box
extern "C" __global__ void __launch_bounds__(BLOCK)
    tree_box(const Body* __restrict__ bodies, Box* __restrict__ boxes, int n) {
    int k = blockIdx.x * BLOCK + threadIdx.x;
    Box box = box_of(bodies[min(k, n - 1)]);
    for (; k < n; k += gridDim.x * BLOCK) join(box, box_of(bodies[k]));
    box = joined_in_block<BLOCK>(box);
    if (threadIdx.x == 0) boxes[blockIdx.x] = box;
}
#endif

#ifdef KERNEL_tree_keys
extern "C" __global__ void __launch_bounds__(BLOCK)
    tree_keys(const Body* __restrict__ bodies, const Box* __restrict__ boxes, Cube* __restrict__ cube,
              Key* __restrict__ keys, int n, int parts) {
    Cube around = cube_around(joined_in_block<BLOCK>(boxes[min(static_cast<int>(threadIdx.x), parts - 1)]));
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        const real before = cube->width;  // 0 at first
        const real closer = before > 0 && around.width > 0 ? before / around.width : 1;
        around.stronger = closer * closer;
        *cube = around;
    }
    const int k = blockIdx.x * BLOCK + threadIdx.x;
    if (k < n) keys[k] = key_of(cell_of(bodies[k], around));
}
#endif

#ifdef KERNEL_tree_order
extern "C" __global__ void __launch_bounds__(BLOCK)
    tree_order(const Body* __restrict__ bodies, const Key* __restrict__ keys, const long long* __restrict__ order,
               Body* __restrict__ sorted, Begun* __restrict__ all_begun, int* __restrict__ counts, int n) {
    __shared__ Key near_keys[BLOCK + 2 * LEAF];  // from LEAF bodies before the block on
    __shared__ int of_warps[warps_of_block][levels];
    const int first = blockIdx.x * BLOCK;
    for (int place = threadIdx.x; place < BLOCK + 2 * LEAF; place += BLOCK) {
        const int k = first - LEAF + place;
        if (k >= 0 && k < n) near_keys[place] = keys[order[k]];
    }
    __syncthreads();
    const int k = first + threadIdx.x;
    Begun begun = {1, 0, 0};
    if (k < n) {
        sorted[k] = bodies[order[k]];
        const Key* own = near_keys + LEAF + threadIdx.x;
        begun = begun_by(Ranked{own, rank_of(own, keys, order, k)}, k, n);
        all_begun[k] = begun;
    }
    for (int level = 1; level <= levels; ++level) {
        const unsigned beginning = cells_in_warp(begun, level);
        if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32][level - 1] = __popc(beginning);
    }
    __syncthreads();
    for (int level = threadIdx.x; level < levels; level += BLOCK) {
        int sum = 0;
        for (int warp = 0; warp < warps_of_block; ++warp) sum += of_warps[warp][level];
        counts[level * gridDim.x + blockIdx.x] = sum;
    }
}
#endif

#ifdef KERNEL_tree_scan
// Block l replaces the numbers of cells of level l + 1 by their sums before each block of bodies; `totals` gets the sum
// of all.
extern "C" __global__ void __launch_bounds__(SCAN)
    tree_scan(int* __restrict__ counts, int* __restrict__ totals, int blocks) {
    __shared__ int of_warps[SCAN / 32];
    int* const of_level = counts + blockIdx.x * blocks;
    const int each = (blocks + SCAN - 1) / SCAN;
    const int begin = min(static_cast<int>(threadIdx.x) * each, blocks), end = min(begin + each, blocks);
    int sum = 0;
    for (int k = begin; k < end; ++k) sum += of_level[k];
    int before = inclusive_scan(sum);
    if (lane_of_thread() == 31) of_warps[threadIdx.x / 32] = before;
    __syncthreads();
    for (int warp = 0; warp < static_cast<int>(threadIdx.x) / 32; ++warp) before += of_warps[warp];
    if (threadIdx.x == SCAN - 1) totals[blockIdx.x] = before;
    before -= sum;
    for (int k = begin; k < end; ++k) {
        const int cells = of_level[k];
        of_level[k] = before;
        before += cells;
    }
}
#endif

#ifdef KERNEL_tree_nodes
// Replace the numbers of cells of each level by the number of its first node, as far as the nodes fit into `capacity`:
// node 0 is the root, and the nodes of each level follow those of the level above. Return the last level that fits, and
// how many nodes there are.
__device__ __forceinline__ int number_levels(int (&base)[levels], int capacity, int& nodes) {
    int level = 0;
    nodes = 1;
    for (; level < levels && base[level] > 0 && base[level] <= capacity - nodes; ++level) {
        const int cells = base[level];
        base[level] = nodes;
        nodes += cells;
    }
    return level;
}

// Count the bodies from body k on, which begins a cell of a level, that are in this cell.
__device__ __forceinline__ int bodies_in_cell(const Key* __restrict__ keys, const long long* __restrict__ order, int k,
                                              int n, int level) {
    const Key begins = keys[order[k]];
    int inside = k, outside = n;
    while (inside + 1 < outside) {
        const int middle = inside + (outside - inside) / 2;
        if (is_in_cell(begins, keys[order[middle]], middle - k, level)) {
            inside = middle;
        } else {
            outside = middle;
        }
    }
    return outside - k;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
    tree_nodes(const Begun* __restrict__ all_begun, const Key* __restrict__ keys, const long long* __restrict__ order,
               const int* __restrict__ counts, const int* __restrict__ totals, Bound* __restrict__ bounds,
               Link* __restrict__ links, int* __restrict__ pending, int* __restrict__ tree, int n, int blocks,
               int capacity) {
    __shared__ int of_warps[warps_of_block][levels];
    __shared__ int base[levels];
    __shared__ int last_level;
    const int k = blockIdx.x * BLOCK + threadIdx.x, lane = threadIdx.x % 32, warp_of_thread = threadIdx.x / 32;
    const Begun begun = k < n ? all_begun[k] : Begun{1, 0, 0};
    for (int level = 1; level <= levels; ++level) {
        const unsigned beginning = cells_in_warp(begun, level);
        if (lane == 0) of_warps[warp_of_thread][level - 1] = __popc(beginning);
    }
    for (int level = threadIdx.x; level < levels; level += BLOCK) base[level] = totals[level];
    __syncthreads();
    if (threadIdx.x == 0) {
        int nodes;
        const int level = number_levels(base, capacity, nodes);
        last_level = level;
        if (blockIdx.x == 0) {
            *tree = nodes;
            bounds[0] = Bound{0, level == 0 ? n : 0, 0, -1};
        }
    }
    __syncthreads();
    for (int level = threadIdx.x; level < last_level; level += BLOCK) {
        int first_node = base[level] + counts[level * blocks + blockIdx.x];
        for (int warp = 0; warp < warps_of_block; ++warp) {
            const int cells = of_warps[warp][level];
            of_warps[warp][level] = first_node;
            first_node += cells;
        }
    }
    __syncthreads();
    // The last node of the level above that begins at this body or before: the one around it.
    int above = 0;
    for (int level = 1; level <= last_level; ++level) {
        // The lanes whose bodies begin a cell of this level; of these, those up to this lane are counted.
        const unsigned beginning = cells_in_warp(begun, level);
        const int node = of_warps[warp_of_thread][level - 1] + __popc(beginning & (whole_warp >> (31 - lane))) - 1;
        if (beginning >> lane & 1) {
            if (level > begun.least || k == 0) links[above].begin = node;
            // One more child that has not arrived, in the lower half, and one more child, in the upper half
            // (is_last_child).
            atomicAdd(pending + above, 0x10001);
            int bodies = 0;
            if (level == begun.deepest) {
                bodies = begun.bodies;
            } else if (level == last_level) {
                bodies = bodies_in_cell(keys, order, k, n, level);  // there is no room for its children
            }
            bounds[node] = Bound{k, bodies, level, above};
        }
        above = node;
    }
}
#endif
