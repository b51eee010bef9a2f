/* gravbench entry
# expected: the last body fills up the last tile of 256, which has 232
kernels:
  - {name: q_threads, grid: 'ceil_div(n, P)', block: [P, Q], arguments: [bodies, accelerations, n, eps2]}
constants: {P: 64, Q: 4, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// Q threads share the work on one body: each adds up its part of every tile, and the first joins their Q sums.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<vec4f, UNROLL>, P * Q / UNROLL>;

// Return a with what body j does to body i: x, y, z are a position, w is a mass.
fn interact(a: vec3f, i: vec4f, j: vec4f, eps2: f32) -> vec3f {
    let d = j.xyz - i.xyz;
    let inverse = inverseSqrt(dot(d, d) + eps2);
    return a + j.w * inverse * inverse * inverse * d;
}

@compute @workgroup_size(P, Q)
fn q_threads(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_id) local: vec3u) {
    let n = numbers.n;
    let x = i32(local.x);
    let y = i32(local.y);
    let thread = y * P + x;
    let i = i32(group.x) * P + x;  // the Q threads with the same x have the same body
    let own = bodies[min(i, n - 1)];
    var a = vec3f();
    for (var first = 0; first < n; first += P * Q) {
        let j = first + thread;
        let row = bodies[min(j, n - 1)];
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = y * (P / UNROLL); turn < (y + 1) * (P / UNROLL); turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                a = interact(a, own, tile[turn][step], numbers.eps2);
            }
        }
        workgroupBarrier();
    }
    tile[thread / UNROLL][thread % UNROLL] = vec4f(a, 0);
    workgroupBarrier();
    if y == 0 && i < n {
        for (var other = P + x; other < P * Q; other += P) {
            a += tile[other / UNROLL][other % UNROLL].xyz;
        }
        accelerations[i] = vec4f(a, 0);
    }
}
