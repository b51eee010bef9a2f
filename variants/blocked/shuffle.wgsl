// Pass bodies around the subgroup by shuffles instead of staging them in workgroup memory.
//
// As shuffle.cu, for subgroups of any size, which a device decides: each lane loads a body, and all lanes get one after
// another. Where P is less than a subgroup or no multiple of one, some lanes are not there; those that always are take
// part. WGSL has no bound on registers, so RESIDENT is not used.
//
// Global loads per body: n / (subgroup * R) of 16 bytes, because each subgroup loads for itself. bodies[i] = x, y, z,
// mass; accelerations[i] = x, y, z, 0; n rows each. Lanes beyond the last body pass one of mass 0. first_block: the
// number of the first block of this dispatch.
enable subgroups;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(2) var<uniform> numbers: Numbers;

// The largest power of two that divides P.
const always_there = P & -P;

@compute @workgroup_size(THREADS)
fn shuffle(
    @builtin(workgroup_id) group: vec3u,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_invocation_id) place: u32,
    @builtin(subgroup_size) size: u32,
) {
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let lane = i32(place);
    let lanes = min(i32(size), always_there);
    let i = (numbers.first_block + i32(group.x)) * (P * R) + i32(local);
    var own: array<Body, R>;
    var sums: array<Sums, R>;
    for (var b = 0; b < R; b++) {  // unrolled
        own[b] = body_of(bodies[min(i + b * P, n - 1)]);
    }
    for (var first = 0; first < n; first += lanes) {
        var mine = BodyRow();
        if first + lane < n {
            mine = bodies[first + lane];
        }
        if lanes >= UNROLL {
            for (var k = 0; k < lanes; k += UNROLL) {
                for (var step = 0; step < UNROLL; step++) {  // unrolled
                    let j = body_of(subgroupShuffle(mine, u32(k + step)));
                    for (var b = 0; b < R; b++) {  // unrolled
                        sums[b] = interact(sums[b], own[b], j, eps2);
                    }
                }
            }
        } else {
            for (var k = 0; k < lanes; k++) {
                let j = body_of(subgroupShuffle(mine, u32(k)));
                for (var b = 0; b < R; b++) {  // unrolled
                    sums[b] = interact(sums[b], own[b], j, eps2);
                }
            }
        }
    }
    for (var b = 0; b < R; b++) {  // unrolled
        if i + b * P < n {
            accelerations[i + b * P] = row_of(sums[b]);
        }
    }
}
