// Read a body, its position and mass together, with one 16-byte load.
//
// As float4.cu. Global loads per body: n of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows
// each. first_block: the number of the first block of this dispatch.
struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

@compute @workgroup_size(THREADS)
fn float4_kernel(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = (numbers.first_block + i32(group.x)) * THREADS + i32(thread);
    if i >= numbers.n {
        return;
    }
    let own = body_of(bodies[i]);
    var sums = Sums();
    for (var j = 0; j < numbers.n; j++) {
        sums = interact(sums, own, body_of(bodies[j]), numbers.eps2);
    }
    accelerations[i] = row_of(sums);
}
