/* gravbench entry
# expected: ax, ay, az are in the order ay, ax, az
kernels:
  - {name: r_bodies, grid: 'ceil_div(n, P * R)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 128, R: 4, UNROLL: 8}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// A thread has R bodies, so that one body read from workgroup memory serves R interactions.

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
fn r_bodies(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let thread = i32(local);
    let i = i32(group.x) * P * R + thread;  // and i + P, i + 2 P, ...
    var own: array<vec4f, R>;
    var a: array<vec3f, R>;
    for (var r = 0; r < R; r++) {  // unrolled
        own[r] = bodies[min(i + r * P, n - 1)];
    }
    for (var first = 0; first < n; first += P) {
        let j = first + thread;
        var row = vec4f();
        if j < n {
            row = bodies[j];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                let other = tile[turn][step];
                for (var r = 0; r < R; r++) {  // unrolled
                    a[r] = interact(a[r], own[r], other, numbers.eps2);
                }
            }
        }
        workgroupBarrier();
    }
    for (var r = 0; r < R; r++) {  // unrolled
        if i + r * P < n {
            accelerations[i + r * P] = vec4f(a[r].yxz, 0);
        }
    }
}
