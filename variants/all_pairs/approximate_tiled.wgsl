// Sum over a window of the bodies only, another window in each step, staged in tiles of P.
//
// As approximate_tiled.cu; the tile has two indices, as that of tiled.wgsl. Global loads per body: the length of the
// window / P, of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each. first_block: the
// number of the first block of this dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
    first: i32,
    last: i32,
    scale: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<BodyRow, UNROLL>, P / UNROLL>;

@compute @workgroup_size(THREADS)
fn approximate_tiled(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let thread = i32(local);
    let i = (numbers.first_block + i32(group.x)) * P + thread;
    let own = body_of(bodies[min(i, n - 1)]);
    var sums = Sums();
    for (var first = numbers.first; first < numbers.last; first += P) {
        let j = first + thread;
        var row = BodyRow();
        if j < numbers.last {
            row = bodies[j];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                sums = interact(sums, own, body_of(tile[turn][step]), eps2);
            }
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = numbers.scale * row_of(sums);
    }
}
