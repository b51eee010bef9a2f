/* gravbench entry
kernels:
  - {name: batched_sums, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The terms of a batch have a sum of their own, which is added to the total when the batch is done.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<vec4f, UNROLL>, P / UNROLL>;

// Return a with what body j does to body i: x, y, z are a position, w is a mass.
fn interact(a: vec3f, i: vec4f, j: vec4f, eps2: f32) -> vec3f {
    let d = j.xyz - i.xyz;
    let inverse = inverseSqrt(dot(d, d) + eps2);
    return a + j.w * inverse * inverse * inverse * d;
}

@compute @workgroup_size(P)
fn batched_sums(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let thread = i32(local);
    let i = i32(id.x);
    let own = bodies[min(i, n - 1)];
    var total = vec3f();
    for (var first = 0; first < n; first += P) {
        let j = first + thread;
        var row = vec4f();  // a body without mass adds nothing
        if j < n {
            row = bodies[j];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            var batch = vec3f();
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                batch = interact(batch, own, tile[turn][step], numbers.eps2);
            }
            total += batch;
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = vec4f(total, 0);
    }
}
