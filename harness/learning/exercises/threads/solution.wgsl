/* gravbench entry
kernels:
  - {name: threads, grid: 'ceil_div(n, P)', block: P, arguments: [x, y, z, mass, ax, ay, az, n, eps2]}
constants: {P: 256}
arrays: {x: x, y: y, z: z, mass: mass, ax: ax, ay: ay, az: az}
*/
// One thread for each body: thread i adds up what all bodies do to body i.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> z: array<f32>;
@group(0) @binding(3) var<storage, read> mass: array<f32>;
@group(0) @binding(4) var<storage, read_write> ax: array<f32>;
@group(0) @binding(5) var<storage, read_write> ay: array<f32>;
@group(0) @binding(6) var<storage, read_write> az: array<f32>;
@group(0) @binding(7) var<uniform> numbers: Numbers;

@compute @workgroup_size(P)
fn threads(@builtin(global_invocation_id) id: vec3u) {
    let i = i32(id.x);
    if i >= numbers.n {
        return;  // the last block has more threads than bodies are left
    }
    let own = vec3f(x[i], y[i], z[i]);
    var sum = vec3f();
    for (var j = 0; j < numbers.n; j++) {
        let d = vec3f(x[j], y[j], z[j]) - own;
        let inverse = inverseSqrt(dot(d, d) + numbers.eps2);
        sum += mass[j] * inverse * inverse * inverse * d;
    }
    ax[i] = sum.x;
    ay[i] = sum.y;
    az[i] = sum.z;
}
