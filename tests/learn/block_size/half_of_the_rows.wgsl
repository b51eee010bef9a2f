/* gravbench entry
# expected: were not written: does the grid reach them?
kernels:
  - {name: block_size, grid: 'ceil_div(n, P)', block: P, arguments: [bodies, accelerations, n, eps2]}
constants: {P: 256, TILE: 256}
arrays: {bodies: bodies, accelerations: accelerations}
*/
// P threads load tiles of TILE bodies: 4 KiB of workgroup memory for a block of 256 threads leave room for many blocks.

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<vec4f, TILE>;

// Return a with what body j does to body i: x, y, z are a position, w is a mass.
fn interact(a: vec3f, i: vec4f, j: vec4f, eps2: f32) -> vec3f {
    let d = j.xyz - i.xyz;
    let inverse = inverseSqrt(dot(d, d) + eps2);
    return a + j.w * inverse * inverse * inverse * d;
}

@compute @workgroup_size(P)
fn block_size(@builtin(global_invocation_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let i = i32(id.x);
    let own = bodies[min(i, n - 1)];
    var a = vec3f();
    for (var first = 0; first < n; first += TILE) {
        let count = min(TILE, n - first);
        for (var k = i32(local); k < count; k += P) {
            tile[k] = bodies[first + k];
        }
        workgroupBarrier();
        for (var k = 0; k < count; k++) {
            a = interact(a, own, tile[k], numbers.eps2);
        }
        workgroupBarrier();
    }
    if i < n / 2 {
        accelerations[i] = vec4f(a, 0);
    }
}
