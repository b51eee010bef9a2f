/* gravbench entry
kernels:
  - {name: wide_load, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The rows of bodies are x, y, z and mass. This kernel reads a row with four loads. Your part: read it with one.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<f32>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<f32>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

@compute @workgroup_size(P)
fn wide_load(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= numbers.n {
        return;
    }
    let own = vec3f(bodies[4 * i], bodies[4 * i + 1], bodies[4 * i + 2]);
    var sum = vec3f();
    for (var j = 0; j < numbers.n; j++) {
        let d = vec3f(bodies[4 * j], bodies[4 * j + 1], bodies[4 * j + 2]) - own;
        let inverse = inverseSqrt(dot(d, d) + numbers.eps2);
        sum += bodies[4 * j + 3] * inverse * inverse * inverse * d;
    }
    accelerations[4 * i] = sum.x;
    accelerations[4 * i + 1] = sum.y;
    accelerations[4 * i + 2] = sum.z;
}
