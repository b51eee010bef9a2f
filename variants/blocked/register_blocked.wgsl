// Give each thread R bodies, so that one body read from workgroup memory serves R interactions.
//
// As register_blocked.cu; the tile has two indices, as that of tiled.wgsl. Every loop over the bodies of a thread is
// unrolled, so that they stay in registers. MASS_FIRST 1: a row of the tile begins with the mass. WGSL has no bound on
// registers, so RESIDENT is not used.
//
// Global loads per body: n / (P * R) of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows
// each. Places of a tile beyond the last body have mass 0. first_block: the number of the first block of this dispatch.
const_assert P % UNROLL == 0;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

var<workgroup> tile: array<array<vec4f, UNROLL>, P / UNROLL>;

fn in_tile(row: BodyRow) -> vec4f {
    if MASS_FIRST == 1 {
        return row.wxyz;
    }
    return row;
}

fn from_tile(row: vec4f) -> Body {
    if MASS_FIRST == 1 {
        return body_of(row.yzwx);
    }
    return body_of(row);
}

@compute @workgroup_size(THREADS)
fn register_blocked(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let thread = i32(local);
    let i = (numbers.first_block + i32(group.x)) * (P * R) + thread;
    var own: array<Body, R>;
    var sums: array<Sums, R>;
    for (var b = 0; b < R; b++) {  // unrolled
        own[b] = body_of(bodies[min(i + b * P, n - 1)]);
    }
    for (var first = 0; first < n; first += P) {
        var row = BodyRow();
        if first + thread < n {
            row = bodies[first + thread];
        }
        tile[thread / UNROLL][thread % UNROLL] = in_tile(row);
        workgroupBarrier();
        for (var turn = 0; turn < P / UNROLL; turn++) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                let j = from_tile(tile[turn][step]);
                for (var b = 0; b < R; b++) {  // unrolled
                    sums[b] = interact(sums[b], own[b], j, eps2);
                }
            }
        }
        workgroupBarrier();
    }
    for (var b = 0; b < R; b++) {  // unrolled
        if i + b * P < n {
            accelerations[i + b * P] = row_of(sums[b]);
        }
    }
}
