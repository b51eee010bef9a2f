"""The emulated program: what is wrong with a kernel is found with its line and thread, and what is right agrees."""

import platform
import re
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from checked import Checked
from direct import direct_accelerations
from emulator import COMPILER
from gravbench.emulation import programs
from gravbench.emulation.emulated import Launch, emulate
from gravbench.errors import InputError
from gravbench.model import generators
from gravbench.model.variant import discover
from gravbench.sandbox.confined import Limits, protections
from gravbench.verifying import comparing

pytestmark = pytest.mark.skipif(
    COMPILER is None or sys.platform != "linux", reason="no g++ on PATH, or not Linux, where programs are confined"
)

LIMITS = Limits(seconds=20, memory_bytes=2 << 30, processes=1, file_bytes=1 << 20)
N = 128


def evaluate(source, *launches, **options):
    """Run kernels on 128 rows of four numbers, which are their places, an output and a counter."""
    arrays = {
        "rows": np.arange(4 * N, dtype=np.float32).reshape(N, 4),
        "out": np.zeros(N, np.float32),
        "count": np.zeros(1, np.int32),
    }
    options = {"defines": {}, "limits": LIMITS} | options
    defines = options.pop("defines")
    return emulate(source, defines, arrays, ["out"], launches or (launch(),), **options)


def launch(kernel="kernel", grid=(2, 1), threads=(64, 1), shared=0, arguments=("rows", "out", "count", N)):
    return Launch(kernel, grid, threads, shared, arguments)


HEAD = 'extern "C" __global__ void kernel(const float4* rows, float* out, int* count, int n) {\n'
PLACE = "    const int i = blockIdx.x * blockDim.x + threadIdx.x, k = threadIdx.x;\n"


def body(text):
    return HEAD + PLACE + text + "}\n"


RIGHT = {
    "a tile": """
    __shared__ float4 tile[64];
    tile[k] = rows[i];
    __syncthreads();
    float sum = 0;
    for (int other = 0; other < 64; ++other) sum += tile[other].x;
    out[i] = sum;
""",
    "dynamic shared memory": """
    extern __shared__ __align__(16) float4
        tile[];
    tile[k] = rows[i];
    __syncthreads();
    float sum = 0;
    for (int other = 0; other < 64; ++other) sum += tile[other].x;
    out[i] = sum;
""",
    "shuffles": """
    float sum = rows[i].x;
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_xor_sync(~0u, sum, apart);
    __shared__ float of_warps[2];
    if (k % 32 == 0) of_warps[k / 32] = sum;
    __syncthreads();
    out[i] = of_warps[0] + of_warps[1];
""",
    "shuffles down, and a first lane": """
    float sum = rows[i].x;
    for (int apart = 16; apart > 0; apart /= 2) sum += __shfl_down_sync(~0u, sum, apart);
    sum = __shfl_sync(~0u, sum, 0);
    __shared__ double of_warps[2];
    of_warps[k / 32] = 0;
    __syncwarp();
    if (k % 32 == 31) of_warps[k / 32] = sum;
    __syncthreads();
    out[i] = of_warps[0] + of_warps[1];
""".replace("    of_warps[k / 32] = 0;\n", "    if (k % 32 == 0) of_warps[k / 32] = 0;\n"),
    "atomics": """
    __shared__ int sum;
    if (k == 0) sum = 0;
    __syncthreads();
    atomicAdd(&sum, int(rows[i].x));
    atomicMax(count, i);
    __syncthreads();
    out[i] = sum;
""",
    "the last block adds up": """
    // Each block adds up its rows; the last to end gives all the result: see the table of expected sums.
    __shared__ float tile[64];
    __shared__ bool last;
    tile[k] = rows[i].x;
    __syncthreads();
    float sum = 0;
    for (int other = 0; other < 64; ++other) sum += tile[other];
    if (blockIdx.x == 0) out[k] = sum;
    else out[i] = sum;
    __threadfence();
    __syncthreads();
    if (k == 0) last = atomicAdd(count, 1) == int(gridDim.x) - 1;
    __syncthreads();
    if (last) out[k] += 0 * out[(k + 64) % 128];
""",
}


def quick(cases, *names):
    """Mark all cases but these as slow: each takes a compilation."""
    return [
        pytest.param(case, id=name, marks=() if name in names else pytest.mark.slow) for name, case in cases.items()
    ]


@pytest.mark.parametrize("text", quick(RIGHT, "the last block adds up"))
@pytest.mark.parametrize("order", ["upwards", "downwards"])
def test_what_is_right_raises_no_alarm(text, order):
    done = evaluate(body(text), launch(shared=1024), order=order)
    assert done.fault is None
    sums = [np.sum(4 * np.arange(first, first + 64)) for first in (0, 64)]
    assert np.array_equal(done.arrays["out"], np.repeat(sums, 64))


# Of each: kind, thread, block, and words of the sentence. The line of the fault has "HERE", another one "THERE".
WRONG = {
    "a missing barrier": (
        "race", 1, 0, "thread 1 of block 0 writes tile[1] in line HERE, "
        "which thread 0 reads in line THERE without a barrier between them",
        """
    __shared__ float tile[64];
    tile[k] = rows[i].x;  // HERE
    out[i] = tile[63 - k]
        + tile[1];  // THERE
""",
    ),
    "a missing second barrier": (
        "race", 0, 0, "thread 0 of block 0 reads tile[63] in line HERE, which thread 63 writes in line THERE "
        "in the next turn of the loop without a barrier",
        """
    __shared__ float tile[64];
    float sum = 0;
    for (int first = 0; first < n; first += 64) {
        tile[k] = rows[first + k].x;  // THERE
        __syncthreads();
        for (int other = 0; other < 64; ++other)
            sum += tile[other];  // HERE
    }
    out[i] = sum;
""",
    ),
    "two blocks write one row": (
        "race", 0, 1, "thread 0 of block 1 writes out[0] in line HERE, "
        "which thread 0 of block 0 writes in line HERE without an order",
        """
    out[k] = rows[i].x;  // HERE
""",
    ),
    "a sum without an atomic operation": (
        "race", 1, 0, "thread 1 of block 0 reads count[0] in line HERE, which thread 0 writes in line HERE",
        """
    out[i] = i;
    *count += 1;  // HERE
""",
    ),
    "a barrier for some": (
        "barrier", 0, 0, "thread 0 of block 0 waits at __syncthreads in line HERE for thread 40, which has ended",
        """
    out[i] = i;
    if (k < 40)
        __syncthreads();  // HERE
""",
    ),
    "a shuffle of some lanes": (
        "divergence", 0, 0, "thread 0 of block 0 waits at __shfl_sync in line HERE for thread 20, "
        "which waits at __syncthreads in line THERE",
        """
    float value = rows[i].x;
    if (k % 32 < 20)
        value = __shfl_sync(~0u, value, 0);  // HERE
    __syncthreads();  // THERE
    out[i] = value;
""",
    ),
    "a vote beside a shuffle": (
        "divergence", 1, 0, "calls __shfl_sync in line HERE while other lanes of its mask wait at __ballot_sync",
        """
    if (k % 2 == 0) out[i] = __ballot_sync(~0u, k > 3);
    else out[i] = __shfl_sync(~0u, 1.0f, 0);  // HERE
""",
    ),
    "a mask without the lane": (
        "divergence", 1, 0, "calls __any_sync in line HERE with a mask that lacks its own lane",
        """
    out[i] = __any_sync(1u, k > 3);  // HERE
""",
    ),
    "a read behind the end": (
        "bounds", 0, 1, "thread 0 of block 1 reads rows[128] in line HERE; rows has 128 rows",
        """
    out[i] = rows[i + 64].x;  // HERE
""",
    ),
    "a write before the beginning": (
        "bounds", 0, 0, "thread 0 of block 0 writes out[-1] in line HERE; out has 128 rows",
        """
    out[i - 1] = 0;  // HERE
""",
    ),
    "a read through no pointer": (
        "bounds", 0, 0, "thread 0 of block 0 reads 4 bytes in line HERE that are in no array",
        """
    const float* nothing = reinterpret_cast<const float*>(16ull * n);
    out[i] = nothing[i];  // HERE
""",
    ),
    "behind the end of a shared array": (
        "bounds", 60, 0, "writes tile[60] in line HERE; tile has 60 elements",
        """
    __shared__ float tile[60];
    tile[k] = rows[i].x;  // HERE
    __syncthreads();
    out[i] = tile[k / 2];
""",
    ),
    "behind dynamic shared memory": (
        "bounds", 32, 0, "writes byte 128 of dynamic shared memory in line HERE; the launch has 128 bytes of it",
        """
    extern __shared__ float tile[];
    tile[k] = rows[i].x;  // HERE
    __syncthreads();
    out[i] = tile[k / 2];
""",
    ),
    "a division by zero": (
        "crash", 0, 0, "thread 0 of block 0 divides an integer by zero in line HERE",
        """
    out[i] = 7 / (n - 128);  // HERE
""",
    ),
    "deep recursion": (
        "memory", 0, 0, "thread 0 of block 0 uses more than 128 KiB of local memory",
        """
    struct Deep {
        static __noinline__ float sum(int n) {
            volatile float room[1000];
            room[n % 7] = n;
            return n <= 0 ? 0 : sum(n - 1) + room[n % 7];  // HERE
        }
    };
    out[i] = Deep::sum(n);
""",
    ),
}  # fmt: skip


USUAL = ("a missing barrier", "a barrier for some", "a shuffle of some lanes", "a read behind the end")


@pytest.mark.parametrize("case", quick(WRONG, *USUAL))
def test_what_is_wrong_is_found_with_its_line_and_thread(case):
    kind, thread, block, sentence, text = case
    source = body(text)
    lines = {word: next((k for k, line in enumerate(source.splitlines(), 1) if f"// {word}" in line), 0)
             for word in ("HERE", "THERE")}  # fmt: skip
    fault = evaluate(source, launch(shared=128)).fault
    assert fault is not None
    assert (fault.kind, fault.thread, fault.block, fault.kernel) == (kind, thread, block, "kernel"), fault
    for word, line in lines.items():
        sentence = re.sub(rf"\b{word}\b", str(line), sentence)
    assert sentence in fault.sentence
    assert kind == "memory" or fault.line == lines["HERE"]


UNKNOWN = {
    "an intrinsic": ("out[i] = __no_such_intrinsic(rows[i].x);", "__no_such_intrinsic"),
    "a function of the system": ("out[i] = system(\"true\");", "system"),
    "a declared function of the system": ("out[i] = getpid();", "getpid"),
    "assembly": ('asm volatile("mov.u32 %0, %%laneid;" : "=r"(count[0]));', "inline assembly cannot be emulated"),
}  # fmt: skip


@pytest.mark.parametrize("name", ["checked.cpp", "threads.hpp", "device.hpp", "kernels.hpp"])
def test_headers_of_the_library_come_before_the_names_of_cuda(name):
    """Among these are words of the library's own, such as ``__noinline__``, which newer ones use in more headers."""
    text = (Path(programs.__file__).parent / name).read_text("utf-8")
    after = re.split(r'^#include "|^#define __', text, maxsplit=1, flags=re.MULTILINE)[1:]
    assert not re.search("^#include <", "".join(after), re.MULTILINE)


@pytest.mark.parametrize("case", quick(UNKNOWN, "a function of the system", "assembly"))
def test_a_function_that_the_emulator_does_not_know_is_named_with_its_line(case):
    text, name = case
    source = 'extern "C" int getpid();\n' + body(f"    {text}  // HERE\n")
    fault = evaluate(source).fault
    assert fault.kind == "unknown function"
    assert name in fault.sentence
    assert fault.line in ((1, 4) if name == "getpid" else (4,))


def test_what_does_not_compile_has_its_line_in_the_file_that_it_names():
    fault = evaluate(body("    out[i] = nothing;\n")).fault
    assert (fault.kind, fault.line) == ("unknown function", 3)
    fault = evaluate(f'#line 7 "tile.cuh"\n{HEAD}{PLACE}    out[i] = rows;\n}}\n').fault
    assert fault.sentence.startswith("tile.cuh, line 9: cannot convert")
    assert fault.kind == "compile"


def test_a_launch_that_does_not_fit_the_kernel_is_one_sentence():
    source = body("    out[i] = 0;\n")
    assert evaluate(source, launch(arguments=("rows", "out"))).fault.sentence == (
        "kernel has 4 parameters, and the launch gives 2"
    )
    fault = evaluate(source, launch(arguments=("rows", 3, "count", 0))).fault
    assert fault.sentence == "parameter 2 of kernel is an array, and the launch gives an integer"
    fault = evaluate(source, launch("other")).fault
    assert fault.kind == "compile"
    assert "other" in fault.sentence
    for wrong, said in (
        (launch(threads=(1025, 1)), "at most 1,024 threads"),
        (launch(grid=(0, 1)), "at least one of each"),
        (launch("kernel();"), "is no name of a kernel"),
        (launch(shared=1 << 20), "bytes of dynamic shared memory; accepted: 0 to 232,448"),
        (launch(arguments=("row",)), r"no array row; did you mean rows\?"),
    ):
        with pytest.raises(InputError, match=said):
            evaluate(source, wrong)
    with pytest.raises(InputError, match="there is no launch"):
        emulate(source, {}, {}, [], [], limits=LIMITS)


def test_a_loop_without_end_is_a_fault_with_its_line():
    begin = time.monotonic()
    source = body("    volatile float* turn = out;\n    while (turn[i] != 3)\n        ;  // HERE\n")
    fault = evaluate(source, limits=Limits(1, 2 << 30, 1, 1 << 20)).fault
    assert (fault.kind, fault.kernel, fault.line) == ("time", "kernel", 4)
    assert fault.sentence == "the launch did not end in time; thread 0 of block 0 was in line 4"
    assert time.monotonic() - begin < 10


def test_too_little_memory_is_a_fault():
    arrays = {"rows": np.zeros((1 << 20, 4), np.float32)}
    source = 'extern "C" __global__ void kernel(const float4* rows) {}\n'
    done = emulate(source, {}, arrays, [], [Launch("kernel", (1, 1), (1, 1), 0, ("rows",))],
        limits=Limits(20, 300 << 20, 1, 1 << 20))  # fmt: skip
    assert done.fault.kind == "memory"


def test_shared_memory_and_outputs_hold_no_number_before_they_are_written():
    source = body(
        "    __shared__ float tile[64];\n"
        "    if (blockIdx.x == 0) tile[k] = 5;\n"
        "    __syncthreads();\n"
        "    if (k < 32) out[i] = tile[k];\n"
    )
    out = evaluate(source).arrays["out"]
    assert np.array_equal(out[:32], np.full(32, 5))
    assert np.isnan(out[32:]).all()
    kept = evaluate(source, poison_outputs=False).arrays["out"]
    assert np.array_equal(kept[32:64], np.zeros(32))


def test_blocks_of_two_dimensions_templates_structures_and_printing():
    source = """
struct Pair { double first; float2 second; int4 whole; };
template <int P> __global__ void of_width(const float4* __restrict__ rows, float* out, int n, float scale) {
    __shared__ Pair pairs[P][2];
    const int k = threadIdx.y * blockDim.x + threadIdx.x;
    const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.y == 0) pairs[threadIdx.x][0] = {1.0, make_float2(2, 3), {4, 5, 6, 7}};
    __syncthreads();
    const Pair pair = pairs[threadIdx.x][0];
    const int i = block * P * 2 + k;
#pragma unroll 4
    for (int turn = 0; turn < 1; ++turn)
        if (i < n) out[i] = scale * fmaf(pair.second.y, __ldg(&rows[i].x), max(pair.whole.x, 2));
    if (i == 3) printf("thread %d of %s\\n", k, "block");
    if (clock64() < 0) out[0] = __frsqrt_rn(2) + __fdividef(1, 2) + min(1.0, 2.0f) + fma(1.0, 2.0, 3.0);
}
"""
    done = evaluate(source, Launch("of_width<16>", (2, 2), (16, 2), 0, ("rows", "out", N, 2.0)))
    assert done.fault is None
    assert np.array_equal(done.arrays["out"], 2 * (3 * np.arange(N) * 4.0 + 4))
    assert done.printed == "thread 3 of block\n"


def test_an_entry_cannot_take_the_place_of_what_checks_it():
    source = 'extern "C" __device__ long write(int, const void*, unsigned long bytes) { return bytes; }\n' + body(
        "    out[i + 1] = 0;\n"
    )
    fault = evaluate(source).fault
    assert (fault.kind, fault.line, fault.thread, fault.block) == ("bounds", 4, 63, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('#undef asm\nasm("nop");\n', "entry.cu, line 1: inline assembly cannot be emulated"),
        ('__attribute__((no_sanitize("thread"))) __device__ void f() {}\n', 'line 1: no entry may use "no_sanitize"'),
        ("__device__ long f() { return emulated::read(nullptr, 0); }\n", 'line 1: no entry may use "emulated"'),
    ],
)
def test_an_entry_cannot_switch_off_what_checks_it(text, said):
    fault = evaluate(text + body("    out[i] = 0;\n")).fault
    assert fault.kind == "unknown function"
    assert said in fault.sentence


RAW_CALLS = """
static const unsigned char code[] __attribute__((section(".text.code"), aligned(16))) = {
    0x89, 0xf8, 0x48, 0x89, 0xf7, 0x48, 0x89, 0xd6, 0x31, 0xd2, 0x0f, 0x05, 0xc3};  // eax = edi, ..., syscall, ret
extern "C" __global__ void kernel(const float4* rows, float* out, int* count, int n) {
    if (blockIdx.x || threadIdx.x) return;
    const auto call = reinterpret_cast<long (*)(long, long, long)>(reinterpret_cast<long>(code));
    out[0] = call(39, 0, 0);  // getpid: the machine code works
    out[1] = call(2, reinterpret_cast<long>("/etc/passwd"), 0);  // open
    out[2] = call(85, reinterpret_cast<long>("/tmp/made by an entry"), 0600);  // creat
    out[3] = call(41, 2, 1);  // socket
    out[4] = call(57, 0, 0);  // fork
    out[5] = call(62, -1, 9);  // kill
}
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_an_entry_with_machine_code_of_its_own_reaches_no_file_no_network_and_no_process():
    if missing := protections().missing:
        pytest.skip(missing[0])
    done = evaluate(RAW_CALLS)
    assert done.fault is None
    assert done.arrays["out"][0] > 0
    assert (done.arrays["out"][1:6] < 0).all(), done.arrays["out"][:6]


def test_a_second_launch_sees_the_first_and_the_program_is_compiled_once():
    source = body("    if (OFFSET) out[i] += count[0];\n") + (
        'extern "C" __global__ void first(float* out, int* count) {\n'
        "    out[64 * blockIdx.x + threadIdx.x] = threadIdx.x;\n"
        "    if (threadIdx.x == 0) atomicExch(count, 7);\n"
        "}\n"
    )
    launches = (launch("first", arguments=("out", "count")), launch())
    before = programs.program_of.cache_info()
    for _ in range(2):
        done = evaluate(source, *launches, defines={"OFFSET": "1"})
        assert np.array_equal(done.arrays["out"], np.tile(np.arange(64.0), 2) + 7)
    after = programs.program_of.cache_info()
    assert (after.misses - before.misses, after.hits - before.hits) == (1, 1)


def test_kernels_are_linked_without_static_libraries_too(monkeypatch):
    def missing(name, arguments, folder):
        return run(name, ["-static-that-is-not-there" if word == "-static" else word for word in arguments], folder)

    run = programs.run_tool
    monkeypatch.setattr(programs, "run_tool", missing)
    done = evaluate(body("    out[i] = i;  // linked dynamically\n"))
    assert done.fault is None
    assert np.array_equal(done.arrays["out"], np.arange(N))


def test_tiled_is_emulated_within_seconds():
    variant, bodies = discover()["tiled"], generators.plummer(1024, 3, 0.05)
    gpu = Checked(variant, "float32")
    begin = time.monotonic()
    variant.prepare(gpu, bodies, **variant.complete({"p": 128})).launch()
    # About a tenth of a second, and two to compile; other processes may need the processor too.
    assert gpu.seconds < 5
    assert time.monotonic() - begin < 20


SMALL = {"p": 32, "unroll": 8, "r": 2, "j_bag": 64, "theta": 0}
QUICK = ("tiled", "split_j", "symmetric")
NOT_CHECKED = {
    "tensor": "on tensor cores", "tensor_half": "on tensor cores",
    "fast_multipole": "no direct sum; its blocks write the same value to one flag",
}  # fmt: skip
VARIANTS = [
    name for name, one in discover().items() if one.has_cuda_c and "gpus" not in one.axes and name not in NOT_CHECKED
]


@pytest.mark.parametrize(
    ("name", "n"),
    [pytest.param(name, n, marks=pytest.mark.corpus if n == 1 else () if name in QUICK else pytest.mark.slow)
     for name in VARIANTS for n in (1, 97)],
)  # fmt: skip
def test_variants_raise_no_alarm_and_agree_with_the_float64_direct_sum(name, n):
    variant, bodies = discover()[name], generators.plummer(n, 3, 0.05)
    axes = variant.complete({axis: value for axis, value in SMALL.items() if axis in variant.axes})
    prepared = variant.prepare(Checked(variant, "float32"), bodies, **axes)
    results = []
    for _ in range(prepared.cycle):
        prepared.launch()
        accelerations = prepared.accelerations
        results.append(
            np.column_stack(accelerations) if isinstance(accelerations, tuple) else accelerations[:, :3].copy()
        )
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    errors = comparing.compare(np.mean(results, axis=0), expected)
    assert comparing.objection_to(errors, variant.accepted("float32", axes)) is None


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("__shared__ float4 tile[P];", {"tile": 16}),
        ("__shared__ double a[8];\n__shared__ float3 b[P + 1];", {"a": 8, "b": 12}),
        ("__shared__ float tile[8][33];", {}),
        ("__shared__ Body tile[8];", {}),
        ("__shared__ float tile[8]; __shared__ int tile[9]; __shared__ float2 tile[9];", {}),
    ],
)
def test_elements_of_shared_arrays_are_known_where_they_can_be(text, elements):
    assert programs.elements_of(text) == elements
