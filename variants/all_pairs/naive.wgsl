// One thread per body; each thread reads all bodies from four arrays in global memory.
//
// As naive.cu. Global loads per body: 4 n, of 4 bytes. x, y, z: positions; mass; ax, ay, az: accelerations; each an
// array of n numbers. first_block: the number of the first block of this dispatch.
struct Numbers {
    first_block: i32,
    n: i32,
    eps2: f32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read> y: array<f32>;
@group(0) @binding(2) var<storage, read> z: array<f32>;
@group(0) @binding(3) var<storage, read> mass: array<f32>;
@group(0) @binding(4) var<storage, read_write> ax: array<f32>;
@group(0) @binding(5) var<storage, read_write> ay: array<f32>;
@group(0) @binding(6) var<storage, read_write> az: array<f32>;
@group(0) @binding(7) var<uniform> numbers: Numbers;

@compute @workgroup_size(THREADS)
fn naive(@builtin(workgroup_id) group: vec3u, @builtin(local_invocation_index) thread: u32) {
    let i = (numbers.first_block + i32(group.x)) * THREADS + i32(thread);
    if i >= numbers.n {
        return;
    }
    let own = Body(x[i], y[i], z[i], mass[i]);
    var sums = Sums();
    for (var j = 0; j < numbers.n; j++) {
        sums = interact(sums, own, Body(x[j], y[j], z[j], mass[j]), numbers.eps2);
    }
    ax[i] = sums.ax;
    ay[i] = sums.ay;
    az[i] = sums.az;
}
