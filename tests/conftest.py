"""What all tests share: the simulator where there is no GPU, and the rule for tests that need one."""

import gc
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer.testing
from hypothesis import settings

from gravbench.errors import InputError
from gravbench.model import derived
from gravbench.model.bodies import Bodies
from gravbench.model.record import Record
from gravbench.model.runs import RecordFile
from gravbench.model.statistics import ends
from gravbench.toolkits import compile_cache
from gravbench.toolkits.devices import gpus

# What a started process compiled of gravbench is kept for those after it: to compile it again costs half of a start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# The same of the tests, whose assertions take pytest longer to rewrite than to import.
sys.dont_write_bytecode = False

# What is collected stays to the end: to search it for garbage takes a quarter of the collection.
gc.disable()

# What a shell starts in the background ignores these, and so would every run that a test stops by them.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

GPUS, NO_GPU = gpus()
if not GPUS:
    # Has to be said before numba.cuda is imported; inherited by every process a test starts.
    os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
    import simulator

    simulator.take_turns()

# Threads of a kernel on the processor wait asleep, in every process a test starts: those that spin take the cores that
# the tests beside them want.
os.environ["OMP_WAIT_POLICY"] = "passive"

# Before a variant is imported: what is compiled of it for the processor is then found by all processes, as in a run.
compile_cache.keep()

# The same examples every time: what fails here fails for everybody.
settings.register_profile("gravbench", derandomize=True)
settings.load_profile("gravbench")

ROOT = Path(__file__).resolve().parent.parent


@contextmanager
def saying(words: str) -> Iterator[None]:
    """Add to whatever fails inside of a loop which turn of the loop it was."""
    try:
        yield
    except Exception as error:
        error.add_note(words)
        raise


def save(bodies: Bodies, path: Path) -> None:
    """Write bodies to a NumPy archive, from which they are read bit for bit."""
    np.savez(path, mass=bodies.mass, position=bodies.position, velocity=bodies.velocity)


def placed(position: object, mass: object = None, eps: float = 0.05) -> Bodies:
    """Return bodies at rest; of equal masses, one in all, where none are given."""
    position = np.asarray(position, float)
    mass = np.full(len(position), 1 / len(position)) if mass is None else mass
    return Bodies(mass, position, np.zeros_like(position), eps)


def flat(text: str) -> str:
    """Undo wrapping."""
    return " ".join(text.split())


def invoke(*words: object) -> Any:
    """Do what ``gravbench`` does with these words, 80 columns wide or ``COLUMNS``; return what typer's runner does."""
    from gravbench.cli.main import app

    columns = os.environ.get("COLUMNS", "80")
    return typer.testing.CliRunner().invoke(app, list(map(str, words)), env={"COLUMNS": columns})


def command(*words: object) -> tuple[int, str]:
    """Do what ``gravbench`` does with these words; return the exit code and all that is printed."""
    done = invoke(*words)
    if isinstance(done.exception, InputError):
        return 2, str(done.exception)
    assert isinstance(done.exception, SystemExit | None), done.exception
    return done.exit_code, done.output


def wait_until(condition: Callable[[], object], seconds: float = 250.0) -> None:
    """Wait for what another process does soon."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def consistent(record: Record) -> Record:
    """Return a made-up record with all that a run derives from its samples, as a record in a file has."""
    bounded = derived.interval(record)
    low, high = ends(bounded)
    record = record.model_copy(update={"median_seconds": bounded.median, "ci_low": low, "ci_high": high})
    return record.model_copy(update=derived.speeds(record))


def missing_variants(config: str) -> str:
    """Say which variants that a packaged configuration names are not there yet; nothing where all are."""
    from gravbench.config.document import read
    from gravbench.config.load import packaged
    from gravbench.config.settings import Config
    from gravbench.model.variant import discover

    content = Config.model_validate(read(packaged()[config]).data)
    named = dict.fromkeys(name for entry in content.variants for name in entry.variant if name != "all")
    missing = [name for name in named if name not in discover()]
    return f"{config} names variants that are not here: {', '.join(missing)}" if missing else ""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--require-gpu", action="store_true", help="fail the tests that need a GPU where there is none")
    parser.addoption("--attacks", type=int, default=1, help="how many times as many random inputs tests/attack tries")


TOGETHER = (
    "barnes_hut",
    "test_page.py",
    "test_dask.py",
    "test_emulated.py",
    "numba_symmetric",
    "numba_parallel",
    "test_loads.py",
    "test_command_line.py",
    "test_records.py",
    "test_kills.py",
    "test_noise.py",
    "test_architecture.py",
    "test_ledger.py",
    "test_learning.py",
    "test_live",
    "test_foreign_toolkit.py",
    "test_docs.py",
)
"""Words in the names of tests that share what takes seconds to make: those with the same word run in one process."""


LONG = (
    "test_every_packaged_run",
    "test_site.py",
    "test_exploits.py",
    "test_builds.py",
    "test_cheats.py",
    "test_judging.py",
    "test_forks.py",
    "test_beside_a_clone.py",
    "test_emulation.py",
    "test_supervisor.py",
    "test_hard_bodies.py",
    "compile",
    "every_interaction",
    "every_end_of_a_range",
)
"""Words in the names of other tests that take long: those begin next."""


def _shared(test: str) -> str:
    """Name what runs in one process: each hand-over costs a millisecond, so all values of a test's parameters do."""
    return next((word for word in TOGETHER if word in test), test.partition("[")[0])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gc.freeze()
    gc.enable()
    for item in items:
        if "browser" in item.fixturenames:
            item.add_marker(pytest.mark.slow)
    # The long ones begin, and single tests fill the time of whichever process is through first.
    places = {word: number for number, word in enumerate((*TOGETHER, *LONG))}
    items.sort(key=lambda item: next((place for word, place in places.items() if word in item.nodeid), len(places)))


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    # pytest-xdist's own groups are without effect from pytest 9.2 on, which no longer lets it rename tests.
    from xdist.scheduler import LoadScopeScheduling

    class Together(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return _shared(nodeid)

    return Together(config, log) if config.getvalue("dist") == "load" else None


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not GPUS:
        if item.config.getoption("--require-gpu"):
            pytest.fail(f"--require-gpu: {NO_GPU}")
        pytest.skip(NO_GPU or "no GPU")


@pytest.fixture(scope="session", autouse=True)
def _forked_workers() -> Iterator[None]:
    """Let all workers of a test process be forked from one that has imported Numba."""
    from workers import forked

    with forked():
        yield


@pytest.fixture(scope="session", autouse=True)
def _state_of_their_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep what commands remember of folders away from what the person who runs the tests has there."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _committed_records_read_once() -> Iterator[None]:
    """Let all tests share the records of the committed runs: to read one takes 0.1 ms, to copy it a twentieth."""
    read = RecordFile._numbered
    kept: dict[object, tuple[list[tuple[int, Record]], list[str]]] = {}

    def copies(
        of: RecordFile, key: object, pass_over: Callable[[str], object], options: dict[str, bool]
    ) -> Iterator[tuple[int, Record]]:
        if key not in kept:
            sentences: list[str] = []
            kept[key] = list(read(of, sentences.append, **options)), sentences
        records, sentences = kept[key]
        for sentence in sentences:
            pass_over(sentence)
        yield from ((number, record.model_copy()) for number, record in records)

    def numbered(self: RecordFile, pass_over: Callable[[str], object], **options: bool) -> Iterator[tuple[int, Record]]:
        path = self.path.resolve()
        if not path.is_relative_to(ROOT / "reports") or not path.is_file():
            return read(self, pass_over, **options)
        facts = path.stat()
        return copies(self, (path, facts.st_mtime_ns, facts.st_size, *sorted(options.items())), pass_over, options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RecordFile, "_numbered", numbered)
        yield


@pytest.fixture(scope="session", autouse=True)
def _packaged_sources_read_once() -> Iterator[None]:
    """Let all reports share the packaged sources of published numbers, which cannot be changed."""
    from gravbench.config import published

    read = published.load
    kept = cache(read)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(published, "load", lambda path: (kept if path in published.packaged().values() else read)(path))
        yield


@pytest.fixture(scope="session", autouse=True)
def _command_line_made_once() -> Iterator[None]:
    """Let all calls of the command line share the parser that typer makes of its functions, in 20 ms for each call."""
    with pytest.MonkeyPatch.context() as patch:
        made = cache(typer.main.get_command)
        patch.setattr("typer.main.get_command", made)
        patch.setattr("typer.testing._get_command", made)
        yield


@pytest.fixture(scope="session", autouse=True)
def bundled_once(libraries: Path) -> Iterator[None]:
    """Let all pages share what draws the charts: it is the same in each, and takes two seconds to bundle."""
    from gravbench.report.page import html

    bundle, path = html._vega, libraries / "charts.js"

    @cache
    def bundled() -> str:
        if not path.exists():
            own = path.with_name(f"{os.getpid()}_{path.name}")
            own.write_text(bundle(), "utf-8")
            own.replace(path)
        return path.read_text("utf-8")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "_vega", bundled)
        yield


@pytest.fixture(autouse=True)
def _folders_of_one_test() -> Iterator[None]:
    """Let Python forget the folders of variants in which a test let it look, and the modules it found there."""
    from gravbench.model import neighbours

    before = set(sys.path)
    yield
    neighbours.forget(set(sys.path) - before)


@pytest.fixture(scope="session")
def attacks(request: pytest.FixtureRequest) -> int:
    """How many times as many random inputs to try as usual."""
    return request.config.getoption("--attacks")


@pytest.fixture(scope="session")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of a test run share, for what takes long to compile."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "libraries"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture
def binaries_folder(tmp_path, monkeypatch):
    """Keep binaries in a folder of their own, which processes inherit."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    return tmp_path / "gravbench"


@pytest.fixture
def need_toolkit(request: pytest.FixtureRequest):
    """Skip, or with --require-gpu fail, where a toolkit's library is not installed; skip where its devices are not."""
    from gravbench.model.toolkits import catalogue
    from gravbench.toolkits.devices import family

    def need(toolkit: str) -> None:
        if missing := catalogue()[toolkit].missing:
            if request.config.getoption("--require-gpu"):
                pytest.fail(f"--require-gpu: {missing}")
            pytest.skip(missing)
        of_its_own = family(catalogue()[toolkit].family)
        if of_its_own.by_name and (reason := of_its_own.devices()[1]):
            pytest.skip(reason)

    return need
