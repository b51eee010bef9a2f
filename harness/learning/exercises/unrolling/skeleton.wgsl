/* gravbench entry
kernels:
  - {name: unrolling, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256, UNROLL: 32}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// The loop over a tile counts, compares and jumps in each turn. Your part: have it written out.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

// Body k of the tile is tile[k / UNROLL][k % UNROLL].
var<workgroup> tile: array<array<vec4f, UNROLL>, P / UNROLL>;

// Return a with what body j does to body i: x, y, z are a position, w is a mass.
fn interact(a: vec3f, i: vec4f, j: vec4f, eps2: f32) -> vec3f {
    let d = j.xyz - i.xyz;
    let inverse = inverseSqrt(dot(d, d) + eps2);
    return a + j.w * inverse * inverse * inverse * d;
}

@compute @workgroup_size(P)
fn unrolling(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let thread = i32(local);
    let i = i32(id.x);
    let own = bodies[min(i, n - 1)];
    var a = vec3f();
    for (var first = 0; first < n; first += P) {
        if first + thread < n {
            tile[thread / UNROLL][thread % UNROLL] = bodies[first + thread];
        }
        workgroupBarrier();
        let count = min(P, n - first);
        for (var k = 0; k < count; k++) {
            a = interact(a, own, tile[k / UNROLL][k % UNROLL], numbers.eps2);
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = vec4f(a, 0);
    }
}
