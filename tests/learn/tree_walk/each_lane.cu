/* gravbench entry
# expected: 0 votes of the warp per cell
kernels:
  - {name: keys_of, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, keys, n]}
  - {name: sort_parts, grid: 'ceil_div(n, P)', block: P, arguments: [keys, parts, n]}
  - {name: merge_parts, grid: 'ceil_div(n, P)', block: P, arguments: [parts, bodies, cells, extents, order, n]}
  - {name: parents, grid: 'ceil_div(n, 8 * P)', block: P, arguments: [cells, extents, 1, n]}
  - {name: parents, grid: 'ceil_div(n, 64 * P)', block: P, arguments: [cells, extents, 2, n]}
  - {name: parents, grid: 'ceil_div(n, 512 * P)', block: P, arguments: [cells, extents, 3, n]}
  - {name: tree_walk, grid: 'ceil_div(n, P)', block: P, arguments: [cells, extents, order, accelerations, n, eps2]}
constants: {P: 128, TOP: 3, THETA_PERCENT: 40}
arrays:
  bodies: bodies
  accelerations: accelerations
  keys: {layout: scratch, bytes: 8 * n}
  parts: {layout: scratch, bytes: 8 * n}
  order: {layout: scratch, bytes: 4 * n}
  cells: {layout: scratch, bytes: 16 * (TOP + 1) * n}
  extents: {layout: scratch, bytes: 4 * (TOP + 1) * n}
error: 0.05
*/
// A walk of a tree by warps: far groups of bodies count as one body. The 32 lanes of a warp have bodies that are near
// one another, and walk together: they open a cell if one of them is too near.

// ---- The tree. Complete: nothing to change down to the next line of this kind. ----
//
// Bodies are sorted along a curve that keeps neighbours together (the Morton order), and 8 in a row make a cell, 8
// cells in a row a cell of the next level. Level 0 are the bodies. Cell k of a level is cells[level * n + k]: its
// centre of mass, and in w its mass. No body of it is farther from the centre than extents[level * n + k]. Its children
// are the cells 8 k, 8 k + 1, ..., 8 k + 7 of the level below, as far as there are so many.

typedef unsigned long long Key;

__device__ int count_of(int level, int n) {
    return (n + (1 << 3 * level) - 1) >> 3 * level;
}

// 10 bits of a coordinate, each followed by two zeros.
__device__ Key spread(float coordinate) {
    const float part = 0.5f + 0.5f * coordinate / (1 + fabsf(coordinate));
    const int bits = min(max(int(1024 * part), 0), 1023);
    Key result = 0;
    for (int b = 0; b < 10; ++b) result |= Key(bits >> b & 1) << 3 * b;
    return result;
}

// The place on the curve; the number of the body behind it makes keys unique.
extern "C" __global__ void keys_of(const float4* bodies, Key* keys, int n) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    const float4 body = bodies[i];
    keys[i] = (spread(body.x) << 2 | spread(body.y) << 1 | spread(body.z)) << 32 | Key(i);
}

// Each block sorts P keys: the place of a key is the number of smaller ones.
extern "C" __global__ void sort_parts(const Key* keys, Key* parts, int n) {
    const int first = blockIdx.x * P, i = first + threadIdx.x;
    if (i >= n) return;
    int place = first;
    for (int j = first; j < min(first + P, n); ++j) place += keys[j] < keys[i];
    parts[place] = keys[i];
}

// The place of a key among all is the sum of its places in all parts, which are found by halving.
extern "C" __global__ void merge_parts(const Key* parts, const float4* bodies, float4* cells, float* extents,
                                       int* order, int n) {
    const int i = blockIdx.x * P + threadIdx.x;
    if (i >= n) return;
    const Key key = parts[i];
    int place = 0;
    for (int first = 0; first < n; first += P) {
        int low = first, high = min(first + P, n);
        while (low < high) {
            const int middle = (low + high) / 2;
            if (parts[middle] < key)
                low = middle + 1;
            else
                high = middle;
        }
        place += low - first;
    }
    order[place] = int(key & 0xffffffff);
    cells[place] = bodies[order[place]];
    extents[place] = 0;
}

extern "C" __global__ void parents(float4* cells, float* extents, int level, int n) {
    const int k = blockIdx.x * P + threadIdx.x;
    if (k >= count_of(level, n)) return;
    const int below = (level - 1) * n, first = 8 * k, last = min(first + 8, count_of(level - 1, n));
    float4 sum = {0, 0, 0, 0};
    for (int child = first; child < last; ++child) {
        const float4 cell = cells[below + child];
        sum.x += cell.w * cell.x;
        sum.y += cell.w * cell.y;
        sum.z += cell.w * cell.z;
        sum.w += cell.w;
    }
    const float4 centre = {sum.x / sum.w, sum.y / sum.w, sum.z / sum.w, sum.w};
    float extent = 0;  // the sum of |dx|, |dy| and |dz| is never less than the distance
    for (int child = first; child < last; ++child) {
        const float4 cell = cells[below + child];
        const float dx = cell.x - centre.x, dy = cell.y - centre.y, dz = cell.z - centre.z;
        extent = fmaxf(extent, fabsf(dx) + fabsf(dy) + fabsf(dz) + extents[below + child]);
    }
    cells[level * n + k] = centre;
    extents[level * n + k] = extent;
}

// ---- The walk. ----

extern "C" __global__ void tree_walk(const float4* __restrict__ cells, const float* __restrict__ extents,
                                     const int* __restrict__ order, float4* __restrict__ accelerations, int n,
                                     float eps2) {
    const float theta = THETA_PERCENT / 100.0f;
    const int i = blockIdx.x * P + threadIdx.x;
    const float4 self = cells[min(i, n - 1)];  // level 0: the bodies in their new order
    float3 a = {0, 0, 0};
    int level = TOP, k = 0;
    while (k < count_of(level, n)) {
        const float4 cell = cells[level * n + k];
        const float extent = extents[level * n + k];
        const float dx = cell.x - self.x, dy = cell.y - self.y, dz = cell.z - self.z;
        const float r2 = dx * dx + dy * dy + dz * dz;
        const bool far = extent * extent <= theta * theta * r2;  // always true of a body, whose extent is 0
        if (!far) {
            --level;  // too near for one lane: all of them look at its children
            k *= 8;
            continue;
        }
        const float inverse = rsqrtf(r2 + eps2);
        const float strength = cell.w * inverse * inverse * inverse;
        a.x += strength * dx;
        a.y += strength * dy;
        a.z += strength * dz;
        ++k;
        // Behind the last child comes what follows its parent.
        while (level < TOP && k % 8 == 0) {
            k /= 8;
            ++level;
        }
    }
    if (i < n) accelerations[order[i]] = {a.x, a.y, a.z, 0};
}
