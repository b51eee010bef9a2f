/* gravbench entry
kernels:
  - {name: q_threads, grid: 'ceil_div(n, P)', block: [P, Q], arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, Q: 1, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// One thread for each body, in blocks of P x Q with Q = 1. Your part: let Q threads share the work on a body.

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

@compute @workgroup_size(P, Q)
fn q_threads(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
    let n = numbers.n;
    let thread = i32(local.x);
    let i = i32(group.x) * P + thread;
    let own = bodies[min(i, n - 1)];
    var a = vec3f();
    for (var first = 0; first < n; first += P) {
        let j = first + thread;
        var row = vec4f();  // a body without mass adds nothing
        if j < n {
            row = bodies[j];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                a = interact(a, own, tile[turn][step], numbers.eps2);
            }
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = vec4f(a, 0);
    }
}
