// Stage a tile of P bodies in workgroup memory, from which all P threads of a block read.
//
// As tiled.cu. The tile has two indices, the second of which is a constant in the unrolled text: WGSL checks every index
// that is none, which costs as much here once per UNROLL bodies. The last tile is rarely full; the kernel counts its
// bodies instead of filling it up, because not every interaction has a body that adds nothing.
//
// Global loads per body: n / P, of one row each (gravity: 16 bytes). bodies[i]: what the interaction reads of a body
// (gravity: x, y, z, mass); accelerations[i]: its sums; n rows each. first_block: the number of the first block of this
// dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<BodyRow, UNROLL>, P / UNROLL>;

@compute @workgroup_size(THREADS)
fn tiled(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let thread = i32(local);
    let block = numbers.first_block + i32(group.x);
    let i = block * P + thread;
    let own = body_of(bodies[min(i, n - 1)]);
    var sums = Sums();
    for (var first = 0; first < n; first += P) {
        if first + thread < n {
            tile[thread / UNROLL][thread % UNROLL] = bodies[first + thread];
        }
        workgroupBarrier();
        if n - first >= P {
            for (var turn = 0; turn < P / UNROLL; turn++) {
                for (var step = 0; step < UNROLL; step++) {  // unrolled
                    sums = interact(sums, own, body_of(tile[turn][step]), eps2);
                }
            }
        } else {
            for (var k = 0; k < n - first; k++) {
                sums = interact(sums, own, body_of(tile[k / UNROLL][k % UNROLL]), eps2);
            }
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = row_of(sums);
    }
}
