// Kick, damp and drift every body, for every integrator; one thread per body.
//
// As integrate.cu. Where bodies or accelerations are rows, x or ax has all of them, and the two arrays behind it are
// empty, because WebGPU binds no buffer twice. first_block: the number of the first block of this dispatch.
struct Numbers {
    first_block: i32,
    n: i32,
    kick: f32,
    damping: f32,
    drift: f32,
}

@group(0) @binding(0) var<storage, read_write> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@group(0) @binding(2) var<storage, read_write> z: array<f32>;
@group(0) @binding(3) var<storage, read_write> vx: array<f32>;
@group(0) @binding(4) var<storage, read_write> vy: array<f32>;
@group(0) @binding(5) var<storage, read_write> vz: array<f32>;
@group(0) @binding(6) var<storage, read> ax: array<f32>;
@group(0) @binding(7) var<storage, read> ay: array<f32>;
@group(0) @binding(8) var<storage, read> az: array<f32>;
@group(0) @binding(9) var<uniform> numbers: Numbers;

fn acceleration(i: i32) -> vec3f {
    if ACCELERATION_STRIDE > 1 {
        let row = i * ACCELERATION_STRIDE;
        return vec3f(ax[row], ax[row + 1], ax[row + 2]);
    }
    return vec3f(ax[i], ay[i], az[i]);
}

fn drift(i: i32, way: vec3f) {
    if BODY_STRIDE > 1 {
        let row = i * BODY_STRIDE;
        x[row] += way.x;
        x[row + 1] += way.y;
        x[row + 2] += way.z;
    } else {
        x[i] += way.x;
        y[i] += way.y;
        z[i] += way.z;
    }
}

@compute @workgroup_size(THREADS)
fn integrate(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = (numbers.first_block + i32(group.x)) * THREADS + i32(thread);
    if i >= numbers.n {
        return;
    }
    let velocity = (vec3f(vx[i], vy[i], vz[i]) + acceleration(i) * numbers.kick) * numbers.damping;
    vx[i] = velocity.x;
    vy[i] = velocity.y;
    vz[i] = velocity.z;
    drift(i, velocity * numbers.drift);
}
