/* gravbench entry
# expected: workgroupBarrier() is missing behind line 73
kernels:
  - {name: pairs_once, grid: 'PARTS * ceil_div(n, 32 * R)', block: 32, arguments: [bodies, ours, theirs, n, eps2]}
  - {name: add_up, grid: 'ceil_div(n, 256)', block: 256, arguments: [ours, theirs, accelerations, n]}
constants: {R: 4, PARTS: 8}
arrays:
  bodies: bodies
  accelerations: accelerations
  ours: {layout: scratch, bytes: '16 * 32 * R * PARTS * ceil_div(n, 32 * R)'}
  theirs: {layout: scratch, bytes: '16 * 32 * R * ceil_div(n, 32 * R) * (1 + ceil_div(n, 32 * R) // 2)'}
*/
// Each pair is computed once and added to both bodies. Additions to memory would race, so that each block writes
// sums of its own, and a second kernel adds them up.

// A block of 32 threads keeps 32 * R bodies, R in each thread, and partners come in groups of 32: after 32 steps each
// thread has met all of them. The blocks form a ring, and each meets itself and the half of the ring behind it, so that
// two blocks meet once.
const width = 32 * R;

struct Numbers {
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> bodies: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> ours: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> theirs: array<vec4f>;
@group(0) @binding(3) var<uniform> numbers: Numbers;

var<workgroup> partners: array<vec4f, 32>;
// What partners have summed up so far, before and after a step in turns.
var<workgroup> passed: array<array<vec3f, 32>, 2>;

// A place without a body has a body without mass.
fn body_at(i: i32, n: i32) -> vec4f {
    return select(bodies[min(i, n - 1)], vec4f(), i >= n);
}

// The number of other blocks that a block meets: of two that are opposite each other, the first has the pair.
fn others(block: i32, blocks: i32) -> i32 {
    return (blocks - 1) / 2 + select(0, 1, blocks % 2 == 0 && block < blocks / 2);
}

// PARTS blocks of threads share the groups of partners that a block of bodies meets.
@compute @workgroup_size(32)
fn pairs_once(@builtin(workgroup_id) id: vec3u, @builtin(local_invocation_index) local: u32) {
    let n = numbers.n;
    let lane = i32(local);
    let block = i32(id.x) / PARTS;
    let part = i32(id.x) % PARTS;
    let blocks = (n + width - 1) / width;
    var own: array<vec4f, R>;
    var a: array<vec3f, R>;
    for (var r = 0; r < R; r++) {  // unrolled
        own[r] = body_at((block * R + r) * 32 + lane, n);
    }
    for (var group = part; group < (1 + others(block, blocks)) * R; group += PARTS) {
        workgroupBarrier();
        partners[lane] = body_at((block * R + group) % (blocks * R) * 32 + lane, n);
        workgroupBarrier();
        var b = vec3f();
        for (var turn = 0; turn < 16; turn++) {
            for (var side = 0; side < 2; side++) {  // unrolled
                let partner = partners[(lane + 2 * turn + side) % 32];
                for (var r = 0; r < R; r++) {  // unrolled
                    let d = partner.xyz - own[r].xyz;
                    let inverse = inverseSqrt(dot(d, d) + numbers.eps2);
                    let cube = inverse * inverse * inverse;
                    a[r] += cube * partner.w * d;
                    b -= cube * own[r].w * d;
                }
                passed[side][lane] = b;
                b = passed[side][(lane + 1) % 32];
            }
        }
        // Behind the last step, b are the sums of partner number `lane`. In its own block each pair comes twice, and
        // one side is enough.
        if group >= R {
            theirs[(block * R * (1 + blocks / 2) + group) * 32 + lane] = vec4f(b, 0);
        }
    }
    for (var r = 0; r < R; r++) {  // unrolled
        ours[(block * PARTS + part) * width + r * 32 + lane] = vec4f(a[r], 0);
    }
}

struct Count {
    n: i32,
}

@group(0) @binding(0) var<storage, read_write> all_ours: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> all_theirs: array<vec4f>;
@group(0) @binding(2) var<storage, read_write> accelerations: array<vec4f>;
@group(0) @binding(3) var<uniform> count: Count;

// Add up what blocks left for body i: its own, and those that have met it as a partner.
@compute @workgroup_size(256)
fn add_up(@builtin(global_invocation_id) id: vec3u) {
    let n = count.n;
    let i = i32(id.x);
    if i >= n {
        return;
    }
    let blocks = (n + width - 1) / width;
    let block = i / width;
    let place = i % width;
    var a = vec4f();
    for (var part = 0; part < PARTS; part++) {
        a += all_ours[(block * PARTS + part) * width + place];
    }
    for (var distance = 1; distance <= blocks / 2; distance++) {
        let other = (block - distance + blocks) % blocks;
        if distance <= others(other, blocks) {
            let group = distance * R + place / 32;
            a += all_theirs[(other * R * (1 + blocks / 2) + group) * 32 + place % 32];
        }
    }
    accelerations[i] = a;
}
