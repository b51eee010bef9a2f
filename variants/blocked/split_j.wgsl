// Split the source bodies over blocks as well, so that few bodies fill a device.
//
// As split_j.cu, but for the end. In WebGPU a block cannot know that it is the last one and sees what the others wrote,
// so the parts are added up by a kernel of its own, which runs behind the first (split_j_then). It adds them in the same
// order, so that results are reproducible. The tile has two indices, as that of tiled.wgsl. WGSL has no bound on
// registers, so RESIDENT is not used.
//
// Global loads per body: n / (P * R) of 16 bytes, and `parts` sums. bodies[i] = x, y, z, mass; accelerations[i] = x, y,
// z, 0; n rows each; partial: parts * n rows (not used with one part); arrived: not used. first_block: the number of the
// first block of this dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
    parts: i32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<storage, read_write> partial_sums: array<SumsRow>;
@group(0) @binding(3) var<storage, read> arrived: array<f32>;
@group(0) @binding(4) var<uniform> numbers: Numbers;

// Rows begin with the mass, as in tile_rows.cuh.
var<workgroup> tile: array<array<vec4f, UNROLL>, P / UNROLL>;

// Divide `units` units of work into `parts` parts that differ in length by one unit at most; return the first unit of a
// part.
fn begin_of(part: i32, parts: i32, units: i32) -> i32 {
    let each = units / parts;
    return part * each + part * (units - parts * each) / parts;
}

@compute @workgroup_size(THREADS)
fn split_j(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    _ = &arrived;
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let parts = numbers.parts;
    let thread = i32(local);
    let number = numbers.first_block + i32(group.x);
    let block = number / parts;
    let part = number - block * parts;
    let i = block * (P * R) + thread;
    let units = (n + UNROLL - 1) / UNROLL;
    let begin = begin_of(part, parts, units) * UNROLL;
    let end = begin_of(part + 1, parts, units) * UNROLL;
    var own: array<Body, R>;
    var sums: array<Sums, R>;
    for (var b = 0; b < R; b++) {  // unrolled
        own[b] = body_of(bodies[min(i + b * P, n - 1)]);
    }
    for (var first = begin; first < end; first += P) {
        var row = BodyRow();
        if first + thread < n {
            row = bodies[first + thread];
        }
        tile[thread / UNROLL][thread % UNROLL] = row.wxyz;
        workgroupBarrier();
        let turns = min(P, end - first) / UNROLL;
        for (var turn = 0; turn < turns; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                let j = body_of(tile[turn][step].yzwx);
                for (var b = 0; b < R; b++) {  // unrolled
                    sums[b] = interact(sums[b], own[b], j, eps2);
                }
            }
        }
        workgroupBarrier();
    }
    for (var b = 0; b < R; b++) {  // unrolled
        if i + b * P < n {
            if parts == 1 {
                accelerations[i + b * P] = row_of(sums[b]);
            } else {
                partial_sums[part * n + i + b * P] = row_of(sums[b]);
            }
        }
    }
}

// Add up the parts, with as many blocks as there were before.
@compute @workgroup_size(THREADS)
fn split_j_then(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    _ = &bodies;
    _ = &arrived;
    let n = numbers.n;
    let blocks = (n + P * R - 1) / (P * R) * numbers.parts;
    if numbers.parts == 1 {
        return;
    }
    for (var k = (numbers.first_block + i32(group.x)) * P + i32(local); k < n; k += blocks * P) {
        var total = Sums();
        for (var part = 0; part < numbers.parts; part++) {
            total = add(total, sums_of(partial_sums[part * n + k]));
        }
        accelerations[k] = row_of(total);
    }
}
