/* A driver of CUDA that computes on the host, in whose place it is loaded: what a kernel does follows from its name.
 * Built by test_judging_on_device.py, with the JUDGED_LAUNCHES of each number of bodies. Each kernel has the parameters
 * (bodies, accelerations, n, eps2). */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int faulty = 0;
static double slowness = 1;
static const char *names[16];
static int functions = 0;

static double now(void) {
    struct timespec moment;
    clock_gettime(CLOCK_MONOTONIC, &moment);
    return moment.tv_sec + 1e-9 * moment.tv_nsec;
}

int cuInit(unsigned flags) { return 0; }
int cuGetErrorString(int code, const char **text) { *text = "an illegal memory access was encountered"; return 0; }
int cuCtxGetCurrent(void **context) { *context = NULL; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxGetDevice(int *device) { *device = 0; return 0; }
int cuCtxSetLimit(int limit, size_t value) { return 0; }
int cuCtxSynchronize(void) { return faulty; }
int cuDeviceGet(int *device, int number) { *device = number; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &faulty; return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) {
    *value = attribute == 13 ? 1980000 : 132;
    return 0;
}
int cuModuleLoadData(void **module, const void *image) { *module = (void *)image; return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) {
    names[functions] = strdup(name);
    *function = &names[functions++];
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuMemAlloc_v2(uint64_t *address, size_t size) { *address = (uint64_t)malloc(size); return *address ? 0 : 2; }
int cuMemFree_v2(uint64_t address) { free((void *)address); return 0; }
int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t size) { memcpy((void *)to, from, size); return faulty; }
int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t size) { memcpy(to, (void *)from, size); return faulty; }
int cuEventCreate(void **event, unsigned flags) { *event = calloc(1, sizeof(double)); return 0; }
int cuEventDestroy_v2(void *event) { free(event); return 0; }
int cuEventRecord(void *event, void *stream) { *(double *)event = now(); return 0; }
int cuEventQuery(void *event) { return 600; }
int cuEventSynchronize(void *event) { return faulty; }
int cuEventElapsedTime(float *milliseconds, void *start, void *stop) {
    *milliseconds = 1e3 * (*(double *)stop - *(double *)start) / slowness;
    return 0;
}

static void evaluate(const float *bodies, float *accelerations, int first, int end, int n, float eps2) {
    for (int i = first; i < end; ++i) {
        double sum[3] = {0, 0, 0};
        for (int j = 0; j < n; ++j) {
            double apart[3], squared = eps2;
            for (int k = 0; k < 3; ++k) {
                apart[k] = (double)bodies[4 * j + k] - bodies[4 * i + k];
                squared += apart[k] * apart[k];
            }
            for (int k = 0; k < 3; ++k) sum[k] += bodies[4 * j + 3] * apart[k] / (squared * sqrt(squared));
        }
        for (int k = 0; k < 3; ++k) accelerations[4 * i + k] = sum[k];
    }
}

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared, void *stream, void **parameters, void **extra) {
    const char *name = *(const char **)function;
    if (!strcmp(name, "hold")) return 0;
    float *bodies = *(float **)parameters[0], *accelerations = *(float **)parameters[1];
    const int n = *(int *)parameters[2];
    const float eps2 = *(float *)parameters[3];
    static float *kept = NULL;
    static int former_n = 0, launches = 0;
    launches = n == former_n ? launches + 1 : 1;
    former_n = n;
    /* Timing makes more launches than these, however slow they are. */
    const int later = launches > JUDGED_LAUNCHES;
    if (!strcmp(name, "endless"))
        for (;;) pause();
    if (!strcmp(name, "dies")) _exit(3);
    if (!strcmp(name, "faulty")) faulty = 700;
    if (!strcmp(name, "falsifies_clock")) slowness = 50;
    if (!strcmp(name, "keeps_result") && later) {
        memcpy(accelerations, kept, 16 * (size_t)n);
        return 0;
    }
    const int half = later && !strcmp(name, "half_rows_later");
    evaluate(bodies, accelerations, 0, half ? n / 2 : n, n, eps2);
    if (!strcmp(name, "keeps_result")) {
        kept = realloc(kept, 16 * (size_t)n);
        memcpy(kept, accelerations, 16 * (size_t)n);
    }
    if (!strcmp(name, "writes_behind")) accelerations[4 * n] = 0;
    if (!strcmp(name, "writes_before")) accelerations[-1] = 0;
    if (!strcmp(name, "changes_bodies")) bodies[3] *= 2;
    return 0;
}
