/* gravbench entry
kernels:
  - name: pull
    grid: ceil_div(n, P)
    block: P
    arguments: [bodies, accelerations, n, eps2]
constants: {P: 64}
arrays: {bodies: bodies, accelerations: accelerations}
rung: tiled
*/
extern "C" __global__ void pull(const float4* bodies, float4* accelerations, int n, float eps2) {
    __shared__ float4 tile[P];
    const int thread = threadIdx.x;
    const int i = blockIdx.x * P + thread;
    const float4 self = bodies[min(i, n - 1)];
    float ax = 0, ay = 0, az = 0;
    for (int first = 0; first < n; first += P) {
        if (first + thread < n) tile[thread] = bodies[first + thread];
        __syncthreads();
        const int count = min(P, n - first);
        for (int k = 0; k < count; ++k) {
            const float4 other = tile[k];
            const float dx = other.x - self.x, dy = other.y - self.y, dz = other.z - self.z;
            const float inverse = rsqrtf(dx * dx + dy * dy + dz * dz + eps2);
            const float weight = other.w * inverse * inverse * inverse;
            ax += weight * dx;
            ay += weight * dy;
            az += weight * dz;
        }
        __syncthreads();  // before the next tile
    }
    if (i < n) accelerations[i] = {ax, ay, az, 0};
}
