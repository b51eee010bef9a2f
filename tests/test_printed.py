"""What sources printed, as variants of their own: the blocks, arithmetic and windows of Lee 2008, run on the host."""

from itertools import product

import numpy as np
import pytest

from direct import direct_accelerations
from emulator import COMPILER, Emulator
from gravbench.errors import InputError
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.initial_conditions import available, load
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find
from gravbench.model.variant import DIRECT_SUM, discover
from gravbench.toolkits.interface import FLAGS
from gravbench.variants.common import printed
from gravbench.verifying import comparing as reference
from nvrtc import compile_cuda

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no g++ on PATH")
EPS = 0.05


def masses_differ(n):
    bodies = generators.plummer(n, 3, EPS)
    return Bodies(bodies.mass * np.linspace(0, 2, n), bodies.position, bodies.velocity, EPS)


@pytest.fixture(scope="module")
def prepared_of(libraries):
    def prepare(name, bodies, **axes):
        variant = discover()[name]
        return variant.prepare(Emulator(variant, "float32", libraries), bodies, **variant.complete(axes))

    return prepare


def agrees(found, bodies):
    expected = direct_accelerations(bodies, np.arange(bodies.n), "float32")
    return reference.objection_to(reference.compare(found, expected), DIRECT_SUM["float32"]) is None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "axes"),
    [
        *[("lee_global", {"width": width, "arithmetic": own}) for width, own in product((1, 4), printed.ARITHMETIC)],
        ("lee_global", {"block_shape": "16x16"}),
        *[("lee_tiled", {"block_shape": "16x16", "arithmetic": own}) for own in printed.ARITHMETIC],
    ],
    ids=str,
)
def test_what_was_printed_computes_gravity(prepared_of, name, axes):
    # One row of a block, a row and a body, more than the bodies of one row of blocks.
    for n in (1, 16, 257) if "block_shape" in axes else (1, 300):
        bodies = masses_differ(n)
        prepared = prepared_of(name, bodies, **axes)
        prepared.launch()
        assert agrees(prepared.accelerations[:, :3], bodies), n


def test_a_block_of_16_x_16_has_16_short_rows_of_bodies(libraries):
    """The first block alone computes bodies 0 to 15, 256 to 271, and so on, which tiles of consecutive bodies hide."""
    bodies = generators.plummer(600, 3, EPS)
    for name in ("lee_global", "lee_tiled"):
        variant = discover()[name]
        emulator = Emulator(variant, "float32", libraries)
        compile_all = emulator.compile
        emulator.compile = lambda stem, compile_all=compile_all, **constants: (
            lambda _, *arguments: compile_all(stem, **constants)(1, *arguments)
        )
        prepared = variant.prepare(emulator, bodies, **variant.complete({"block_shape": "16x16"}))
        prepared.launch()
        written = np.flatnonzero(np.isfinite(prepared.accelerations[:, 0]))
        assert written.tolist() == [first + k for first in (0, 256, 512) for k in range(16)]


@pytest.mark.parametrize("n", [1, 1000, 8192, 49_152])
def test_of_each_group_of_the_table_the_last_line_is_kept(tmp_path, n):
    """As a program does that reads a group of lines and uses what it read last."""
    position = np.arange(3 * 81_920.0).reshape(-1, 3)
    path = tmp_path / "dubinski.npz"
    np.savez(path, mass=np.ones(81_920), position=position, velocity=position)
    found = load(str(path), n, 0, EPS, "lee_last").position
    ends = np.arange(1, n + 1) * 49_152 // n
    assert np.array_equal(found, position[ends - 1])
    first = load(str(path), n, 0, EPS, "lee").position
    assert np.array_equal(first[1:], position[ends[:-1]])
    assert available(str(path), "lee_last") == 49_152
    other = tmp_path / "other.npz"
    np.savez(other, mass=np.ones(5), position=position[:5], velocity=position[:5])
    with pytest.raises(InputError, match="has 5 bodies, but subset lee_last is for the table of Dubinski with 81920"):
        load(str(other), 2, 0, EPS, "lee_last")


@pytest.mark.parametrize("n", [1, 16, 4096, 4097])
def test_blocks_of_16_x_16_cover_every_body(n):
    assert printed.blocks(n, 256, "16x16") == 16 * -(-n // 4096)
    assert printed.blocks(n, 256, "1d") == -(-n // 256)


@pytest.mark.parametrize("n", [1, 130, 300])
def test_a_part_of_the_bodies_in_bags_pulls_all(prepared_of, n):
    """Bags that are full, and one at the end of a part that is not."""
    bodies = masses_differ(n)
    prepared = prepared_of("chamomile_part", bodies, p=64, j_bag=64, fraction=0.5)
    assert prepared.cycle == min(2, n)
    sums = []
    for _ in range(prepared.cycle):
        prepared.launch()
        sums.append(prepared.accelerations[:, :3].copy())
    assert agrees(np.mean(sums, axis=0), bodies)


@pytest.mark.parametrize("n", [1, 130, 300])
@pytest.mark.parametrize("sums", ["register", "memory"])
@pytest.mark.parametrize("calls", [1, 4])
def test_a_call_of_the_scheme_pulls_a_part_of_the_bodies_by_all(prepared_of, n, sums, calls):
    """Bags that are full, and one at the end that is not; calls of several blocks, and fewer bodies than calls."""
    bodies = masses_differ(n)
    prepared = prepared_of("chamomile_call", bodies, p=32, j_bag=64, sums=sums, calls=calls)
    for _ in range(2):
        prepared.accelerations[:] = np.nan
        prepared.launch()
        assert agrees(prepared.accelerations[:, :3], bodies)
    stages = []
    prepared.stages(stages.append)
    made = min(n, calls)
    assert stages == ["upload", "force", "download"] * made
    row = 16
    assert prepared.insight() == {"stages_bytes": {"upload": (1 + made) * n * row, "download": n * row}}


@pytest.mark.parametrize(("in_memory", "read_back"), [(0, 0), (1, 1)])
def test_sums_in_memory_are_read_back_between_bags(in_memory, read_back):
    source = discover()["chamomile_call"].cuda_source(find(GRAVITY))
    constants = {"P": 128, "J_BAG": 512, "UNROLL": 16, "IN_MEMORY": in_memory}
    _, ptx, _ = compile_cuda(source, "sm_90", [*FLAGS, *(f"-D{name}={value}" for name, value in constants.items())])
    # Bodies come by loads that assume that nobody writes to them (ld.global.nc).
    assert ptx.count("ld.global.v4.f32") == read_back


@pytest.mark.parametrize("staged", [0, 1])
@pytest.mark.parametrize("scaled", [0, 1])
def test_the_sum_over_a_window_is_scaled_when_asked(prepared_of, staged, scaled):
    bodies = masses_differ(200)
    prepared = prepared_of("lee_window", bodies, staged=staged, fraction=0.25, scaled=scaled)
    assert prepared.cycle == 4
    assert prepared.bodies[:, 3] == pytest.approx(bodies.mass, rel=1e-6)
    sums = []
    for _ in range(prepared.cycle):
        prepared.launch()
        sums.append(prepared.accelerations[:, :3].copy())
    # Four sums that are not scaled add up to the whole.
    assert agrees(np.mean(sums, axis=0) if scaled else np.sum(sums, axis=0), bodies)
    # One window alone is what its bodies pull.
    first = np.where(np.arange(200) < 50, bodies.mass, 0)
    assert agrees(sums[0] / (4 if scaled else 1), Bodies(first, bodies.position, bodies.velocity, EPS))


def test_a_sum_that_is_not_scaled_is_accepted_and_none_at_all_is_not(prepared_of):
    bodies = masses_differ(200)
    prepared = prepared_of("lee_window", bodies, fraction=0.0625, scaled=0)
    sums = []
    for _ in range(prepared.cycle):
        prepared.launch()
        sums.append(prepared.accelerations[:, :3].copy())
    accepted = discover()["lee_window"].accepted("float32", {"fraction": 0.0625, "scaled": 0})
    expected = direct_accelerations(bodies, np.arange(200), "float32")
    assert reference.objection_to(reference.compare(np.mean(sums, axis=0), expected), accepted) is None
    for wrong in (np.zeros((200, 3)), -np.mean(sums, axis=0)):
        assert reference.objection_to(reference.compare(wrong, expected), accepted) is not None


@pytest.mark.parametrize("name", ["lee_global", "lee_tiled", "lee_window"])
def test_a_square_root_and_a_division_are_not_turned_into_an_inverse_root(name):
    pytest.importorskip("cuda.bindings")
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.toolkits.interface import FLAGS
    from nvrtc import compile_cuda
    from recorder import asked_for

    variant = discover()[name]
    for arithmetic, wanted in zip(
        printed.ARITHMETIC, (["rsqrt.approx"], ["sqrt.rn", "div.rn"], ["sqrt.rn", "rcp.rn"]), strict=True
    ):
        (stem, constants), *_ = asked_for(variant, "float32", variant.complete({"arithmetic": arithmetic}))
        defines = [f"-D{key}={value}" for key, value in constants]
        _, ptx, _ = compile_cuda(variant.cuda_source(find(GRAVITY)), "compute_90", [*FLAGS, *defines])
        assert f".entry {stem}(" in ptx
        for instruction in ("rsqrt.approx", "sqrt.rn", "div.rn", "rcp.rn"):
            assert (f" {instruction}" in ptx.replace("\t", " ")) == (instruction in wanted), (arithmetic, instruction)


def test_an_interleaved_array_is_read_number_by_number():
    pytest.importorskip("cuda.bindings")
    from gravbench.model.interaction import GRAVITY
    from gravbench.model.interaction_files import find
    from gravbench.toolkits.interface import FLAGS
    from nvrtc import compile_cuda
    from recorder import asked_for

    variant = discover()["lee_global"]
    joined = {}
    for width in (1, 4):
        (_, constants), *_ = asked_for(variant, "float32", variant.complete({"width": width}))
        defines = [f"-D{key}={value}" for key, value in constants]
        _, ptx, _ = compile_cuda(variant.cuda_source(find(GRAVITY)), "compute_90", [*FLAGS, *defines])
        joined[width] = (ptx.count("ld.global.nc.f32"), ptx.count("ld.global.nc.v4.f32"))
    # The body of the thread itself is one vector; of each of the others four numbers, or one vector.
    assert joined[1] == (4 * (joined[4][1] - 1), 1)
    assert joined[4][0] == 0
