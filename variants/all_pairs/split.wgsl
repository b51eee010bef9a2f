// Let Q threads share the work on one body, and add up their sums.
//
// As split.cu, in a block whose P * Q threads are numbered in one row; the tile has two indices, as that of tiled.wgsl.
// Global loads per body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
// first_block: the number of the first block of this dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<BodyRow, UNROLL>, P * Q / UNROLL>;

@compute @workgroup_size(THREADS)
fn split(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let thread = i32(local);
    let part = thread / P;
    let x = thread % P;
    let i = (numbers.first_block + i32(group.x)) * P + x;
    let own = body_of(bodies[min(i, n - 1)]);
    var sums = Sums();
    for (var first = 0; first < n; first += P * Q) {
        let j = first + thread;
        var row = BodyRow();
        if j < n {
            row = bodies[j];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = part * (P / UNROLL); turn < (part + 1) * (P / UNROLL); turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                sums = interact(sums, own, body_of(tile[turn][step]), eps2);
            }
        }
        workgroupBarrier();
    }
    tile[thread / UNROLL][thread % UNROLL] = row_of(sums);
    workgroupBarrier();
    if part == 0 && i < n {
        for (var other = P + x; other < P * Q; other += P) {
            sums = add(sums, sums_of(tile[other / UNROLL][other % UNROLL]));
        }
        accelerations[i] = row_of(sums);
    }
}
