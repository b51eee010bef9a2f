"""Movies: their frames are the harness's own leapfrog, the files are whole, and what they print is what happened."""

import os
import re
import sys
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from browsing import chromium, until
from conftest import GPUS, ROOT, save
from direct import direct_accelerations
from gravbench.cli.main import main
from gravbench.errors import InputError
from gravbench.measuring.step import Stepper
from gravbench.model import generators
from gravbench.model.bodies import Bodies
from gravbench.model.case import Case
from gravbench.model.device import Device
from gravbench.model.initial_conditions import load, of_case, origins
from gravbench.model.variant import discover
from gravbench.movie import files, film, page, view
from gravbench.movie.picture import Painter
from gravbench.movie.simulation import Simulation
from gravbench.toolkits.opening import open_toolkit
from gravbench.verifying.conserved import energy_drift

FAULTY = ROOT / "tests" / "faulty" / "cpu"


def case_of(variant="numba_direct", n=40, **said):
    usual = {"toolkit": "cpu", "axes": {}, "dtype": "float64", "bodies": "collision", "subset": "even", "seed": 1}
    usual |= {"eps": 0.1, "timed": "step", "integrator": "leapfrog", "dt": 0.05}
    return Case(variant=variant, n=n, **(usual | said))


@pytest.fixture
def movie(tmp_path, monkeypatch, capsys):
    """Return a function that makes a small movie in the test's folder, and says how that ended."""
    monkeypatch.chdir(tmp_path)

    def movie(*words, variant="numba_direct"):
        monkeypatch.setattr(sys, "argv", ["gravbench", "movie", variant, *words])
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return SimpleNamespace(code=ended.value.code, out=printed.out, err=printed.err)

    return movie


SMALL = ("--n=40", "--frames=4", "--steps-per-frame=3", "--device=cpu")


# What is computed


@pytest.mark.parametrize(
    ("variant", "toolkit", "dtype", "axes"),
    [
        ("numpy_direct", "cpu", "float64", {}),
        ("numba_direct", "cpu", "float32", {}),
        ("numba_direct", "cpu", "float64", {}),
        ("naive", "numba", "float32", {"p": 32}),
    ],
)
def test_frames_are_the_bodies_of_the_harness_after_as_many_steps(variant, toolkit, dtype, axes):
    own = discover()[variant]
    case = case_of(variant, toolkit=toolkit, axes=axes, dtype=dtype)
    frames = list(Simulation(own, case).frames(4, 3))
    assert [frame.number for frame in frames] == [0, 1, 2, 3]
    assert_allclose([frame.time for frame in frames], 0.15 * np.arange(4))
    bodies = of_case(case)
    assert frames[0].bodies is bodies
    opened = open_toolkit(toolkit, own, dtype)
    stepper = Stepper(opened, own.prepare(opened, bodies, **case.axes), bodies, "leapfrog", case.dt)
    for frame in frames[1:]:
        there = stepper.after(3 * frame.number)
        assert_array_equal(frame.bodies.position, there.position)
        half_a_step = direct_accelerations(there, np.arange(40)) * case.dt / 2
        assert_allclose(frame.bodies.velocity, there.velocity - half_a_step, rtol=1e-4, atol=1e-5)


def test_the_energy_is_compared_at_the_first_and_the_last_frame():
    case = case_of(dt=0.2)
    simulation = Simulation(discover()["numba_direct"], case)
    list(simulation.frames(6, 4))
    toolkit = open_toolkit("cpu", discover()["numba_direct"], "float64")
    bodies = of_case(case)
    stepper = Stepper(toolkit, discover()["numba_direct"].prepare(toolkit, bodies), bodies, "leapfrog", 0.2)
    assert simulation.energy_drift() == pytest.approx(energy_drift(bodies, stepper.after(20)), rel=1e-6)
    assert abs(simulation.energy_drift()) > 1e-8


def test_the_time_of_the_steps_is_that_of_the_steps_alone(monkeypatch):
    simulation = Simulation(discover()["numba_direct"], case_of())
    ticks = count()
    monkeypatch.setattr("gravbench.movie.simulation.perf_counter", lambda: float(next(ticks)))
    for _ in simulation.frames(5, 3):
        next(ticks)  # what is done with a frame takes a second
    assert simulation.steps == 12
    assert simulation.seconds == 4.0


@pytest.mark.parametrize("name", ["wrong", "nan", "unwritten"])
def test_a_variant_that_computes_something_else_makes_no_movie(name):
    variant = discover((FAULTY,))[name]
    with pytest.raises(InputError, match="its accelerations are wrong"):
        Simulation(variant, case_of(name, dtype="float32"))


def test_rates_divide_frames_by_the_time_they_took(tmp_path, monkeypatch):
    case = case_of()
    bodies = of_case(case)

    def frames(*_):
        return iter([SimpleNamespace(number=number, time=0.0, bodies=bodies) for number in range(11)])

    clock = iter([0.0, 13.0])
    monkeypatch.setattr(film, "perf_counter", lambda: next(clock))
    simulation = SimpleNamespace(bodies=bodies, frames=frames, seconds=2.0, steps=20)
    done = []
    look = film.Look((64, 64), 25, 1.0)
    path = tmp_path / "a.gif"
    rates = film.make(simulation, film.colouring_of(case, None), look, 11, 2, "", path, lambda: done.append(1))
    # Ten of eleven frames were computed, all were drawn: 0.2 s and 1 s each.
    assert (rates.computing, rates.step_seconds) == pytest.approx((5.0, 0.1))
    assert rates.making == pytest.approx(1 / 1.2)
    assert len(done) == 11


# What is seen


@pytest.mark.parametrize("bodies", ["collision", "plummer", "uniform"])
def test_a_view_is_from_where_the_angular_momentum_points_and_has_nearly_all_bodies(bodies):
    made = load(bodies, 500, 3, 0.1)
    seen = view.view_of(made, 16 / 9)
    assert_allclose(seen.axes @ seen.axes.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(seen.axes) == pytest.approx(1)
    position, velocity = made.position - seen.centre, made.velocity
    spin = seen.axes @ (made.mass @ np.cross(position, velocity))
    assert_allclose(spin[:2], 0, atol=1e-9)
    assert spin[2] >= 0
    if bodies == "uniform":
        assert_array_equal(seen.axes[2], [0, 0, 1])
    across, up, _ = seen.turned(made).T
    assert ((np.abs(across) < 16 / 9) & (np.abs(up) < 1)).mean() > 0.98
    assert np.abs(across).mean() > np.abs(up).mean() / 1.1
    assert_allclose(view.view_of(made, 16 / 9, 2.0).up, seen.up / 2)


@pytest.mark.parametrize("n", [1, 2])
def test_few_bodies_can_be_seen(n):
    made = load("collision", n, 1, 0.1)
    seen = view.view_of(made, 1.5)
    assert_allclose(seen.axes @ seen.axes.T, np.eye(3), atol=1e-12)
    assert seen.up > 0
    assert np.isfinite(seen.turned(made)).all()


def test_light_falls_where_a_body_is():
    seen = view.View(np.array([1.0, 2.0, 3.0]), np.eye(3), 4.0)
    # A quarter of the width to the right, and of the height above the middle; the other is out of view.
    position = np.array([[1 + 4.0, 2 + 2.0, 9.0], [1 + 9.0, 2.0, 3.0]])
    bodies = Bodies(np.ones(2), position, np.zeros((2, 3)), 1.0)
    painter = Painter(seen, (200, 100), "", [])
    light = painter._light(bodies, np.array([[1.0, 0.5, 0.25], [1, 1, 1]]))
    assert light.shape == (3, 100, 200)
    assert_allclose(light.sum(axis=(1, 2)), [1, 0.5, 0.25])
    rows, columns = np.indices((100, 200)) + 0.5
    assert_allclose([(light[0] * rows).sum(), (light[0] * columns).sum()], [25, 150], atol=1e-4)
    drawn = np.asarray(painter.picture(bodies, np.ones((2, 3)), 0.0)).astype(int).sum(axis=2)[:80]
    assert np.abs(np.array(np.unravel_index(drawn.argmax(), drawn.shape)) + 0.5 - [25, 150]).max() <= 1


def test_the_exposure_stays_as_it_is_at_first():
    made = load("plummer", 200, 1, 0.1)
    painter = Painter(view.view_of(made, 1.0), (100, 100), "", [])
    alone = Bodies(np.ones(1), made.position[:1], np.zeros((1, 3)), 0.1)
    first = painter.picture(made, np.ones((200, 3)), 0.0)
    again = painter.picture(made, np.ones((200, 3)), 0.0)
    assert_array_equal(np.asarray(first), np.asarray(again))
    fresh = Painter(painter.view, (100, 100), "", []).picture(alone, np.ones((1, 3)), 0.0)
    faint = painter.picture(alone, np.ones((1, 3)), 0.0)
    assert np.asarray(faint)[:90].sum() < np.asarray(fresh)[:90].sum()


def test_colours_by_speed_do_not_depend_on_how_fast_all_move_together():
    made = generators.plummer(50, 3, 0.05)
    moving = Bodies(made.mass, made.position, made.velocity + np.array([3.0, -2.0, 1.0]), made.eps)
    assert view.by_speed(moving).fastest == pytest.approx(view.by_speed(made).fastest)
    colouring = view.by_speed(made)
    np.testing.assert_allclose(colouring.parts(moving), colouring.parts(made), atol=1e-12)


def test_colours_by_speed_go_from_rest_to_the_fastest():
    made = load("plummer", 500, 1, 0.1)
    colouring = view.by_speed(made)
    speeds = np.linalg.norm(made.velocity, axis=1)
    assert 0.98 <= (speeds <= colouring.fastest).mean() <= 1
    assert_array_equal(np.argsort(colouring.parts(made), kind="stable")[:300], np.argsort(speeds, kind="stable")[:300])
    rest = Bodies(made.mass, made.position, np.zeros((500, 3)), 0.1)
    assert_allclose(colouring.of(rest), np.tile(np.array(view.SPEEDS[0]) / 255, (500, 1)))
    # Bodies at rest will fall.
    assert view.by_speed(rest).fastest == pytest.approx(colouring.fastest, rel=1)


def test_bodies_of_a_collision_come_from_two_galaxies():
    names, groups = origins("collision", 101)
    assert names == ("galaxy 1", "galaxy 2")
    made = generators.collision(101, 1, 0.1)
    centres = [np.average(made.position[groups == one], axis=0, weights=made.mass[groups == one]) for one in (0, 1)]
    assert np.linalg.norm(centres[0] - centres[1]) == pytest.approx(generators.SEPARATION, rel=1e-6)


@pytest.mark.parametrize("subset", ["even", "lee", "lee_last"])
def test_bodies_of_dubinskis_table_come_from_the_two_galaxies_of_its_parts(tmp_path, subset):
    parts = [16384, 16384, 8192, 8192, 16384, 16384]
    # The position of each says where it belongs.
    group = np.repeat([0, 1, 0, 1, 0, 1], parts)
    position = np.column_stack([group, np.zeros((group.size, 2))])
    path = tmp_path / "table.npz"
    save(Bodies(np.ones(group.size), position, np.zeros(position.shape), 0.1), path)
    names, groups = origins(str(path), 1000, subset)
    assert names == ("Milky Way", "Andromeda")
    assert_array_equal(groups, load(str(path), 1000, 1, 0.1, subset).position[:, 0])
    assert 0 < groups.mean() < 1


def test_bodies_of_another_file_come_from_its_halves(tmp_path):
    path = tmp_path / "nine.npz"
    save(load("plummer", 9, 1, 0.1), path)
    names, groups = origins(str(path), 9)
    assert names == ("first half of the file", "second half")
    assert groups.tolist() == [0] * 5 + [1] * 4
    assert origins(str(path), 3)[1].tolist() == [0, 0, 1]


# The files


def assert_said(done, name, folder):
    assert (done.code, done.err) == (0, "")
    lines = done.out.splitlines()
    assert lines[0].startswith(f"wrote {name}, ")
    for words in ("4 frames", "t = 0 to 0.45", "40 bodies of", "3 steps of", "including copying", "energy", "error"):
        assert words in done.out, words
    rates = [
        float(line.split()[-2].replace(",", ""))
        for line in lines
        if "computing only" in line or "including copying" in line
    ]
    assert rates[0] > rates[1] > 0
    assert [path.name for path in folder.iterdir()] == [name]


def test_an_mp4_has_every_frame_at_its_rate(movie, tmp_path):
    import av

    assert_said(movie(*SMALL, "--fps=10", "--size=320x180"), "collision.mp4", tmp_path)
    with av.open(str(tmp_path / "collision.mp4")) as container:
        stream = container.streams.video[0]
        assert (stream.codec_context.name, stream.average_rate) == ("h264", 10)
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(stream)]
    assert [one.shape for one in pictures] == [(180, 320, 3)] * 4
    assert all(one.max() > 150 > 40 > np.median(one) for one in pictures)
    assert not np.array_equal(pictures[0], pictures[3])


def test_a_gif_has_every_frame_at_its_rate(movie, tmp_path):
    from PIL import Image

    done = movie(*SMALL, "--fps=20", "--size=161x91", "--bodies=plummer", "--out=a.gif", "--seed=2", "--dtype=float64")
    assert_said(done, "a.gif", tmp_path)
    with Image.open(tmp_path / "a.gif") as found:
        assert (found.n_frames, found.size, found.info["duration"], found.info["loop"]) == (4, (161, 91), 50, 0)


@pytest.mark.parametrize("colour", ["origin", "speed"])
def test_a_page_works_offline_and_has_every_frame(movie, tmp_path, monkeypatch, colour):
    monkeypatch.setattr(page, "MOST_POINTS", 4 * 30)
    assert_said(movie(*SMALL, f"--colour={colour}", "--out=a.html"), "a.html", tmp_path)
    text = (tmp_path / "a.html").read_text("utf-8")
    assert not re.search(r"<(script|link|img|iframe)[^>]*(src|href)=", text)
    assert text.startswith("<!doctype html>")
    assert "40 bodies of collision, numba_direct (cpu, float32)" in text
    assert "30 of them are drawn" in text
    frames = re.findall(r'"name":"(\d+)","traces":', text)
    assert frames == ["0", "1", "2", "3"]
    assert ("galaxy 2" in text) == (colour == "origin")
    assert ('"ticktext":["speed 0"' in text) == (colour == "speed")


STATE = """
const movie = document.querySelector(".js-plotly-plot"), { sliders, scene } = movie._fullLayout;
return { frame: sliders[0].active, eye: scene._scene.getCamera().eye, width: document.documentElement.scrollWidth };
"""
WORDS = ".gtitle, .legend, .slider-label, .updatemenu-button"


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1280, 800), (390, 844)])
def test_a_page_is_turned_and_played_in_a_window_and_on_a_phone(movie, tmp_path, width, height):
    assert movie(*SMALL, "--out=a.html").code == 0
    with chromium("--use-angle=swiftshader", "--enable-unsafe-swiftshader") as browser:
        from selenium.webdriver.common.action_chains import ActionChains

        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get((tmp_path / "a.html").as_uri())
        until(lambda: browser.find_elements("css selector", ".gl-container canvas"), 60)

        def state():
            return browser.execute_script(STATE)

        assert state()["width"] == width
        # A window that is higher than wide sees as much of the width.
        until(lambda: state()["eye"]["z"] > 0.74 * max(1, height * 16 / 9 / width), 30)
        for one in browser.find_elements("css selector", WORDS):
            place = one.rect
            assert 0 <= place["x"] <= place["x"] + place["width"] <= width, one.text
        before = state()["eye"]
        canvas = browser.find_element("css selector", ".gl-container canvas")
        ActionChains(browser).move_to_element(canvas).click_and_hold().move_by_offset(80, 20).release().perform()
        until(lambda: abs(state()["eye"]["x"] - before["x"]) > 0.1, 30)
        assert state()["frame"] == 0
        browser.find_element("css selector", ".updatemenu-button").click()
        until(lambda: state()["frame"] == 3, 60)
        assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
        assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []


@pytest.mark.parametrize(("n", "frames"), [(1, 2), (5, 200), (100_000, 200), (100_000, 10**6)])
def test_a_page_has_bodies_spread_over_all_of_them(n, frames):
    shown = page.drawn(n, frames)
    assert shown.size == max(1, min(n, page.MOST_POINTS // frames))
    assert (np.diff(shown) > 0).all()
    assert shown[0] == 0
    assert n - shown[-1] <= -(-n // shown.size)


@pytest.mark.skipif(bool(GPUS), reason="the simulator is for machines without a GPU")
def test_a_gpu_is_used_where_there_is_one_and_seen_alone(movie, tmp_path, monkeypatch):
    device = Device("cuda:1", "Pretended GPU", "GPU-1", "580")
    monkeypatch.setattr("gravbench.toolkits.devices.gpus", lambda: ([device], None))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = movie("--n=40", "--frames=2", "-p", "p=32", "--toolkit=numba", "--size=64x64", variant="naive")
    assert done.code == 0, done.err
    assert "40 bodies of collision, naive (numba on Pretended GPU, float32)" in done.out
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-1"
    assert (tmp_path / "collision.mp4").exists()


# What goes wrong


WRONG = {
    "no such variant": (("--variant", "numba_dirct"), "did you mean numba_direct?"),
    "another ending": (("--out=a.avi",), "the ending is .avi; accepted: .mp4, .gif, .html"),
    "no ending": (("--out=a",), "the ending is missing"),
    "a folder": (("--out=folder.gif",), "a folder"),
    "no such bodies": (("--bodies=nix",), "'nix' is neither an existing file nor a generator"),
    "no number of bodies": (("--n=many",), '--n "many": n is "many"'),
    "no bodies": (("--n=0",), "n is 0; accepted: 1 or more"),
    "more bodies than a file has": (("--bodies=five.npz", "--n=6"), "6 bodies asked for"),
    "no softening": (("--eps=0",), "eps is 0.0; accepted: 1e-09 or more"),
    "time that stands still": (("--dt=0",), "dt is 0.0; accepted: more than 0"),
    "a step too long": (("--dt=1e30", "--frames=3"), "a shorter --dt or a larger --eps may help"),
    "another number type": (("--dtype=half",), "accepted: float32, float64"),
    "no such axis": (("-p", "p=3"), "numba_direct has no axis p"),
    "no such value": (("--variant", "barnes_hut_cpu", "-p", "theta=7"), "has no theta = 7"),
    "no such colouring": (("--colour=mass",), "accepted: origin, speed"),
    "one origin": (("--bodies=plummer", "--colour=origin"), "have the same origin; accepted: speed"),
    "no size": (("--size=wide",), "accepted: WIDTHxHEIGHT, each from 64 to 4096"),
    "an odd size": (("--size=101x100",), "accepted: even numbers of pixels"),
    "the size of a page": (("--size=100x100", "--out=a.html"), "a page fills its window"),
    "a GIF too fine in time": (("--fps=30", "--out=a.gif"), "accepted: 1, 2, 4, 5, 10, 20, 25, 50"),
    "a seed of a file": (("--bodies=five.npz", "--seed=2"), "--seed 2: has no effect"),
    "a subset of a generator": (("--subset=lee",), "--subset lee: has no effect"),
    "no such toolkit": (("--toolkit=cupy",), "numba_direct has no kernel for it; accepted: cpu"),
    "no such device": (("--device=cuda:99",), "no such device"),
    "a kernel for a GPU on a CPU": (("--variant", "tiled", "--device=cpu"), "accepted on a CPU: numpy_direct"),
    "a file as a folder": (("--out=five.npz/a.gif",), "five.npz/a.gif: cannot be written"),
}


@pytest.mark.parametrize(("words", "named"), WRONG.values(), ids=WRONG.keys())
def test_a_mistake_is_one_sentence_and_leaves_nothing_behind(movie, tmp_path, words, named):
    (tmp_path / "folder.gif").mkdir()
    save(load("plummer", 5, 1, 0.1), tmp_path / "five.npz")
    before = sorted(tmp_path.rglob("*"))
    variant = words[1] if words[0] == "--variant" else "numba_direct"
    words = words[2:] if words[0] == "--variant" else words
    done = movie(
        *(() if any(one.startswith(("--n=", "--bodies=five")) for one in words) else ("--n=20",)),
        *words,
        variant=variant,
    )
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert line.startswith("gravbench: ")
    assert named in line
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(("name", "needed"), [("a.mp4", "PyAV and Pillow"), ("a.gif", "Pillow"), ("a.html", "Plotly")])
def test_without_its_libraries_a_movie_says_what_to_install(movie, tmp_path, monkeypatch, name, needed):
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    done = movie(*SMALL, f"--out={name}")
    said = f"gravbench: --out {name}: this needs {needed}; install them with: pip install 'gravbench[movie]'\n"
    assert (done.code, done.err) == (2, said)
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(bool(GPUS), reason="there is a GPU")
def test_without_a_gpu_a_kernel_for_one_makes_no_movie(movie):
    done = movie("--n=40", variant="tiled")
    assert done.code == 2
    assert "tiled cannot run: no NVIDIA GPU" in done.err


@pytest.mark.parametrize("name", ["a.mp4", "a.gif", "a.html"])
def test_a_movie_that_ends_early_leaves_the_file_of_the_last_one(movie, tmp_path, monkeypatch, name):
    (tmp_path / name).write_text("the last one")
    between, calls = Stepper.between, count()

    def lost(stepper):
        bodies = between(stepper)
        return Bodies(bodies.mass, bodies.position * (np.nan if next(calls) else 1), bodies.velocity, bodies.eps)

    monkeypatch.setattr(Stepper, "between", lost)
    done = movie("--n=40", "--frames=5", f"--out={name}")
    assert done.code == 2
    assert "may help" in done.err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["the last one"]
