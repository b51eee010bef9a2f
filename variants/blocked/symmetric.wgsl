// Compute each pair once and add it to both bodies with opposite signs (Newton's third law).
//
// As symmetric.cu with DETERMINISTIC 1 and SHARED 1: WebGPU has no additions of float32 to memory that others add to, so
// each block writes its sums to places of its own, and a second kernel (symmetric_add) adds them up in a fixed order. A
// block is 32 threads, which pass the sums of their partners on through workgroup memory, with one barrier per step: a
// subgroup of 32 lanes is not to be had everywhere.
//
// ours[block][part][32 * R] and theirs[block][group - first][32]; a launch handles the groups first <= group < last of
// each ring. A lane beyond the last body takes one so far away that its interactions are exactly zero, and drops its own
// sums. Bodies have to be within 1e18 of the origin. UNROLL: steps per iteration. EQUAL, GATHER and RESIDENT are not
// used.
//
// Global loads per body: n / (64 * R) of 16 bytes. bodies[i] = x, y, z, mass; accelerations[i] = x, y, z, 0; n rows
// each. first_block: the number of the first block of this dispatch.
const_assert 32 % UNROLL == 0;

const width = 32 * R;

// Farther away than any body, but so near that its square is finite.
const far_away = 4e18f;

struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
    parts: i32,
    first: i32,
    last: i32,
    copies: i32,
}

@group(0) @binding(0) var<storage, read> bodies: array<BodyRow>;
@group(0) @binding(1) var<storage, read> sums: array<SumsRow>;
@group(0) @binding(2) var<storage, read_write> ours: array<SumsRow>;
@group(0) @binding(3) var<storage, read_write> theirs: array<SumsRow>;
@group(0) @binding(4) var<uniform> numbers: Numbers;

// Each partner stands here twice, so that a step is a constant offset; a row begins with the mass.
var<workgroup> partners: array<vec4f, 64>;
// What partners have summed up so far, before and after a step in turns.
var<workgroup> passed: array<array<vec4f, 32>, 2>;

fn body_or_nobody(i: i32, n: i32) -> Body {
    var found = body_of(bodies[min(i, n - 1)]);
    found.x = select(found.x, far_away, i >= n);
    return found;
}

// Return the number of groups that a block pairs with: its own and half of the ring; of two opposite blocks the first
// has the pair.
fn ring_length(block: i32, blocks: i32) -> i32 {
    return R * (1 + (blocks - 1) / 2 + select(0, 1, blocks % 2 == 0 && block < blocks / 2));
}

// Divide `units` units of work into `parts` parts that differ in length by one unit at most; return the first unit of a
// part.
fn begin_of(part: i32, parts: i32, units: i32) -> i32 {
    let each = units / parts;
    return part * each + part * (units - parts * each) / parts;
}

@compute @workgroup_size(THREADS)
fn symmetric(@builtin(workgroup_id) group_id: vec3u, @builtin(local_invocation_index) local: u32) {
    _ = &sums;
    let n = numbers.n;
    let eps2 = numbers.eps2;
    let parts = numbers.parts;
    let lane = i32(local);
    let number = numbers.first_block + i32(group_id.x);
    let block = number / parts;
    let part = number - block * parts;
    let blocks = (n + width - 1) / width;
    let units = min(ring_length(block, blocks), numbers.last) - numbers.first;
    let next = (lane + 1) % 32;
    var own: array<Body, R>;
    var of_own: array<vec3f, R>;
    for (var b = 0; b < R; b++) {  // unrolled
        own[b] = body_or_nobody(block * width + b * 32 + lane, n);
    }
    let end = numbers.first + begin_of(part + 1, parts, units);
    for (var ahead = numbers.first + begin_of(part, parts, units); ahead < end; ahead++) {
        var to_meet = block * R + ahead;
        if to_meet >= blocks * R {
            to_meet -= blocks * R;
        }
        let partner = body_or_nobody(to_meet * 32 + lane, n);
        workgroupBarrier();
        partners[lane] = vec4f(partner.mass, partner.x, partner.y, partner.z);
        partners[lane + 32] = vec4f(partner.mass, partner.x, partner.y, partner.z);
        workgroupBarrier();
        var of_j = vec3f();
        for (var turn = 0; turn < 32; turn += UNROLL) {
            for (var step = 0; step < UNROLL; step++) {  // unrolled
                let j = partners[lane + turn + step];
                for (var b = 0; b < R; b++) {  // unrolled
                    let d = j.yzw - vec3f(own[b].x, own[b].y, own[b].z);
                    let inverse = inverseSqrt(d.x * d.x + (d.y * d.y + (d.z * d.z + eps2)));
                    let cube = inverse * inverse * inverse;
                    of_own[b] += cube * j.x * d;
                    of_j -= cube * own[b].mass * d;
                }
                // A constant in the unrolled text, unless each turn is one step.
                let side = (turn % 2 * (UNROLL % 2) + step) % 2;
                passed[side][lane] = vec4f(of_j, 0);
                workgroupBarrier();
                of_j = passed[side][next].xyz;
            }
        }
        if ahead >= R {
            theirs[(block * (numbers.last - numbers.first) + ahead - numbers.first) * 32 + lane] = vec4f(of_j, 0);
        }
    }
    for (var b = 0; b < R; b++) {  // unrolled
        ours[(block * parts + part) * width + b * 32 + lane] = vec4f(of_own[b], 0);
    }
}

struct Added {
    first_block: i32,
    n: i32,
    parts: i32,
    first: i32,
    last: i32,
}

@group(0) @binding(0) var<storage, read_write> accelerations: array<SumsRow>;
@group(0) @binding(1) var<storage, read> all_ours: array<SumsRow>;
@group(0) @binding(2) var<storage, read> all_theirs: array<SumsRow>;
@group(0) @binding(3) var<uniform> added: Added;

@compute @workgroup_size(THREADS)
fn symmetric_add(@builtin(workgroup_id) group_id: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = added.n;
    let first = added.first;
    let last = added.last;
    let k = (added.first_block + i32(group_id.x)) * THREADS + i32(local);
    if k >= n {
        return;
    }
    let blocks = (n + width - 1) / width;
    let block = k / width;
    let place = k % width;
    let group = place / 32;
    var total = vec4f();
    if first > 0 {
        total = accelerations[k];
    }
    for (var part = 0; part < added.parts; part++) {
        total += all_ours[(block * added.parts + part) * width + place];
    }
    // The block `distance` places behind has met this group as number distance * R + group of its ring.
    var distance = max(1, (first - group + R - 1) / R);
    while distance <= blocks / 2 && distance * R + group < last {
        let ahead = distance * R + group;
        var other = block - distance;
        if other < 0 {
            other += blocks;
        }
        if ahead < ring_length(other, blocks) {
            total += all_theirs[(other * (last - first) + ahead - first) * 32 + place % 32];
        }
        distance++;
    }
    accelerations[k] = total;
}
