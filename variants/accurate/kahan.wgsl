// Keep the rounding error of each addition and subtract it from the next (Kahan's compensated sum).
//
// As kahan.cu; the tile has two indices, as that of tiled.wgsl. WGSL lets a compiler compute (a + b) - a as b, which
// removes the compensation; Mesa's does. So sums are multiplied by a number that is one, which no compiler knows before
// the launch: this makes fused multiply-adds of the additions, of which there are as many.
//
// Global loads per body: n / P of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows each.
// first_block: the number of the first block of this dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<BodyRow, UNROLL>, P / UNROLL>;

@compute @workgroup_size(THREADS)
fn kahan(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let one = f32(min(n, 1));
    let thread = i32(local);
    let i = (numbers.first_block + i32(group.x)) * P + thread;
    let own = body_of(bodies[min(i, n - 1)]);
    var sums = vec3f();
    var lost = vec3f();
    for (var first = 0; first < n; first += P) {
        var row = BodyRow();
        if first + thread < n {
            row = bodies[first + thread];
        }
        tile[thread / UNROLL][thread % UNROLL] = row;
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                let next = interact(Sums(-lost.x, -lost.y, -lost.z), own, body_of(tile[turn][step]), eps2);
                let added = vec3f(next.ax, next.ay, next.az);
                let larger = fma(sums, vec3f(one), added);
                lost = fma(larger, vec3f(one), -sums) - added;
                sums = larger;
            }
        }
        workgroupBarrier();
    }
    if i < n {
        accelerations[i] = vec4f(sums, 0);
    }
}
