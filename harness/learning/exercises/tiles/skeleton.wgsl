/* gravbench entry
kernels:
  - {name: tiles, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// Each thread reads each body from global memory. Your part: let the block load tiles of P bodies into workgroup
// memory.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

// Return a with what body j does to body i: x, y, z are a position, w is a mass.
fn interact(a: vec3f, i: vec4f, j: vec4f, eps2: f32) -> vec3f {
    let d = j.xyz - i.xyz;
    let inverse = inverseSqrt(dot(d, d) + eps2);
    return a + j.w * inverse * inverse * inverse * d;
}

@compute @workgroup_size(P)
fn tiles(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    let i = i32(id.x);
    if i >= numbers.n {
        return;
    }
    let own = bodies[i];
    var a = vec3f();
    for (var j = 0; j < numbers.n; j++) {
        a = interact(a, own, bodies[j], numbers.eps2);
    }
    accelerations[i] = vec4f(a, 0);
}
