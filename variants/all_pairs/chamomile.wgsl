// Sum the bodies of a bag in one register, and the sums of the bags in another.
//
// As chamomile.cu; the bag has two indices, as the tile of tiled.wgsl. Global loads per body: n / P, of one row each
// (gravity: 16 bytes). bodies[i]: what the interaction reads of a body (gravity: x, y, z, mass); accelerations[i]: its
// sums; n rows each. first_block: the number of the first block of this dispatch.
const_assert J_BAG % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> bag: array<array<BodyRow, UNROLL>, J_BAG / UNROLL>;

@compute @workgroup_size(THREADS)
fn chamomile(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let thread = i32(local);
    let i = (numbers.first_block + i32(group.x)) * P + thread;
    let own = body_of(bodies[min(i, n - 1)]);
    var backup = Sums();
    for (var first = 0; first < n; first += J_BAG) {
        for (var k = thread; k < J_BAG; k += P) {
            if first + k < n {
                bag[k / UNROLL][k % UNROLL] = bodies[first + k];
            }
        }
        workgroupBarrier();
        var current = Sums();
        if n - first >= J_BAG {
            for (var turn = 0; turn < J_BAG / UNROLL; turn++) {
                for (var step = 0; step < UNROLL; step++) {  // unrolled
                    current = interact(current, own, body_of(bag[turn][step]), eps2);
                }
            }
        } else {
            for (var k = 0; k < n - first; k++) {
                current = interact(current, own, body_of(bag[k / UNROLL][k % UNROLL]), eps2);
            }
        }
        backup = add(backup, current);
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = row_of(backup);
    }
}
