/* gravbench entry
# expected: wrong rows:
kernels:
  - {name: wide_load, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// A body is one row of x, y, z and mass, and one load of 16 bytes reads it.

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
fn wide_load(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= numbers.n {
        return;
    }
    let own = bodies[i];
    var a = vec3f();
    for (var j = 0; j < numbers.n; j++) {
        a = interact(a, own, bodies[j + 1], numbers.eps2);
    }
    accelerations[i] = vec4f(a, 0);
}
