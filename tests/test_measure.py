"""The measuring protocol, on a time that passes only when something is timed: no test sleeps."""

import itertools
import math
import random
import statistics
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

from gravbench.config.settings import FEWEST_SAMPLES, Measure
from gravbench.measuring import protocol as measuring
from gravbench.measuring.protocol import MOST_BATCH, measure
from gravbench.model.device import HARMLESS, Reading
from gravbench.model.record import OUTRACED, Measurement
from gravbench.model.statistics import effective, interval_of, median_interval
from gravbench.toolkits import interface
from gravbench.toolkits import jax as jax_module
from gravbench.toolkits.cuda import CLOCK_REASONS
from gravbench.toolkits.interface import LONGEST_HOLD, GpuToolkit, Timing
from gravbench.toolkits.jax import JaxToolkit


class Time:
    """A time of its own, for the modules that ask ``time.perf_counter``."""

    def __init__(self):
        self.now = 1000.0

    def pass_by(self, seconds):
        self.now += seconds


@pytest.fixture
def clock_time(monkeypatch):
    own = Time()
    monkeypatch.setattr(measuring, "perf_counter", lambda: own.now)
    monkeypatch.setattr(interface, "perf_counter", lambda: own.now)
    monkeypatch.setattr(jax_module, "perf_counter", lambda: own.now)
    return own


class FakeClock:
    """Each batch takes as long an evaluation as ``durations`` says next; remembers every batch."""

    def __init__(self, time, durations, launch_seconds=None, overhead=0.0, waking=0.0):
        self.time_of = time
        self.waking = waking
        self.durations = iter(durations)
        self.launch_seconds = launch_seconds
        self.overhead = overhead
        self.batches = []
        self.seconds = []

    def time(self, launch, count, while_busy):
        for _ in range(count):
            launch()
        while_busy()
        seconds = next(self.durations)
        self.time_of.pass_by(seconds * count + self.overhead + self.waking)
        self.batches.append(count)
        self.seconds.append(seconds)
        return Timing(seconds, self.launch_seconds, waking_seconds=self.waking)


def constant(seconds):
    return itertools.repeat(seconds)


def noisy(seconds, spread, seed=1):
    source = random.Random(seed)
    while True:
        yield seconds * math.exp(spread * source.gauss(0, 1))


def settings(**changes):
    values = {"half_width": 0.005, "min_samples": 10, "budget_seconds": 5.0, "warm_up_seconds": 0.5}
    return Measure(**(values | {"sample_seconds": 0.002} | changes))


def nothing():
    """Launch nothing."""


def reading(clock=1980, power=650.5, temperature=60, reasons=()):
    return Reading(clock, power, temperature, tuple(reasons))


# The interval of the median


@pytest.mark.parametrize("count", [6, 11, 40])
@pytest.mark.parametrize(
    ("draw", "median"),
    [
        (lambda source, shape: source.exponential(1.0, shape), math.log(2)),
        (lambda source, shape: source.lognormal(0.0, 1.5, shape), 1.0),
        (lambda source, shape: source.pareto(1.0, shape), 1.0),
        (lambda source, shape: source.standard_normal(shape), 0.0),
    ],
    ids=["exponential", "lognormal", "pareto", "normal"],
)
def test_the_interval_holds_the_median_at_least_93_times_in_100(draw, median, count):
    trials = 300
    samples = draw(np.random.default_rng(count), (trials, count))
    intervals = [median_interval(row) for row in samples]
    covered = sum(one.low <= median <= one.high for one in intervals)
    assert covered / trials >= 0.93
    for row, one in zip(samples, intervals, strict=True):
        if effective(row) == count:  # not by chance taken for dependent
            assert one.low in row
            assert one.high in row
        assert one.low <= one.median <= one.high
        assert one.median == statistics.median(row)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_fewer_than_six_samples_bound_no_median(count):
    interval = median_interval([1.0 + 0.001 * k for k in range(count)])
    assert interval.half_width == math.inf
    assert interval.high == math.inf


def test_six_samples_are_the_fewest_that_bound_a_median():
    interval = median_interval([3.0, 1.0, 2.0, 6.0, 5.0, 4.0])
    assert (interval.low, interval.median, interval.high) == (1.0, 3.5, 6.0)
    assert interval.half_width == pytest.approx(5 / 7)


def test_samples_of_no_length_have_no_relative_width():
    assert median_interval([0.0] * 10).half_width == math.inf


def test_independent_samples_count_all_and_dependent_ones_for_as_few_as_they_say():
    generator = np.random.default_rng(6)
    noise = generator.normal(1, 0.1, (200, 100))
    assert np.mean([effective(row) == 100 for row in noise]) > 0.9
    for coefficient in (0.5, 0.9):
        samples = noise - 1
        for i in range(1, 100):
            samples[:, i] += coefficient * samples[:, i - 1]
        found = np.median([effective(row) for row in samples])
        expected = 100 * (1 - coefficient) / (1 + coefficient)
        assert 0.6 < found / expected < 2.2, coefficient
    assert effective([1.0] * 10) == 10
    assert effective([1.0]) == 1
    assert effective([1.0] * 50 + [1.1] * 50) < 4


def test_an_interval_is_as_wide_as_the_effective_number_of_samples_makes_it():
    walk = 100 + np.cumsum(np.random.default_rng(9).normal(0, 1, 200))
    shuffled = np.random.default_rng(9).permutation(walk)
    assert median_interval(walk).half_width > 3 * median_interval(shuffled).half_width


@pytest.mark.parametrize("between", [0.0, 0.02])
def test_the_interval_of_several_processes_holds_the_middle(between):
    generator = np.random.default_rng(4)
    held = 0
    for _ in range(300):
        groups = np.exp(generator.normal(0, between, (4, 1)) + generator.normal(0, 0.002, (4, 10)))
        found = interval_of(groups.tolist())
        assert found.low <= found.median <= found.high
        held += found.low <= 1 <= found.high
    assert held >= 279


# Several processes


def part(middle, samples=10, **changes):
    fields = {"samples_seconds": (middle * np.linspace(0.9999, 1.0001, samples)).tolist(), "median_seconds": middle}
    return Measurement(**(fields | {"stop_reason": "interval", "batch": 3} | changes))


def test_what_several_processes_measured_is_one_measurement_that_tells_them_apart():
    parts = {4: part(1.0, throttled=False, sm_clock_mhz=[5]), 7: part(1.002, throttled=True, sm_clock_mhz=[6])}
    found = measuring.joined(parts, settings(processes=2, half_width=0.1))
    assert found.processes == [4] * 10 + [7] * 10
    assert found.samples_seconds == parts[4].samples_seconds + parts[7].samples_seconds
    assert found.median_seconds == pytest.approx(math.sqrt(1.002))
    assert found.ci_low < 1.0 < 1.002 < found.ci_high
    assert (found.throttled, found.sm_clock_mhz, found.batch, found.stop_reason) == (True, [5, 6], 3, "interval")
    assert found.protocol["processes"] == 2
    assert measuring.joined({3: parts[4]}, settings()).processes == [3] * 10


def test_a_measurement_says_why_all_its_processes_ended():
    near, far = part(1.0), part(1.2)
    assert measuring.joined({1: near, 2: near}, settings()).stop_reason == "interval"
    assert measuring.joined({1: near, 2: far}, settings()).stop_reason == measuring.DIFFERENT
    spent = part(1.2, stop_reason="budget of 2.5 s spent")
    assert measuring.joined({1: near, 2: spent}, settings()).stop_reason == "budget of 5 s spent"
    few = part(1.0, 3, stop_reason="budget of 2.5 s spent after 3 samples")
    assert measuring.joined({1: few}, settings()).stop_reason == "budget of 5 s spent after 3 samples"


# When to stop


@pytest.mark.parametrize(("waking", "overhead", "expected"), [(1.0, 0.0, 10), (0.0, 1.0, 5)])
def test_what_wakes_a_device_is_not_counted_to_the_budget(clock_time, waking, overhead, expected):
    clock = FakeClock(clock_time, constant(0.01), overhead=overhead, waking=waking)
    measured = measuring.sampled(clock, nothing, settings(budget_seconds=5.0), 1)
    assert len(measured.samples_seconds) == expected


def test_samples_that_wander_do_not_end_by_a_narrow_interval(clock_time):
    generator = np.random.default_rng(3)
    walk = 0.01 * np.exp(0.01 * np.cumsum(generator.normal(0, 1, 2000)))
    result = measure(FakeClock(clock_time, walk), nothing, settings(budget_seconds=3))
    assert result.stop_reason == "budget of 3 s spent"
    assert effective(result.samples_seconds) < len(result.samples_seconds) / 10


@pytest.mark.parametrize("min_samples", [6, 10, 40])
def test_equal_samples_stop_by_interval_at_the_fewest_allowed(clock_time, min_samples):
    result = measure(FakeClock(clock_time, constant(0.001)), nothing, settings(min_samples=min_samples))
    assert result.stop_reason == "interval"
    assert len(result.samples_seconds) == min_samples
    assert result.median_seconds == result.ci_low == result.ci_high == 0.001


def test_it_does_not_stop_by_interval_before_an_interval_exists(clock_time):
    result = measure(FakeClock(clock_time, constant(0.001)), nothing, settings(min_samples=3))
    assert result.stop_reason == "interval"
    assert len(result.samples_seconds) == 6


def test_it_goes_on_until_the_interval_is_as_narrow_as_asked_and_no_longer(clock_time):
    result = measure(FakeClock(clock_time, noisy(0.001, 0.02)), nothing, settings(half_width=0.005))
    assert result.stop_reason == "interval"
    assert len(result.samples_seconds) > 20
    assert (result.ci_high - result.ci_low) / 2 / result.median_seconds <= 0.005
    assert median_interval(result.samples_seconds[:-1]).half_width > 0.005


def test_it_stops_by_the_budget_and_says_so(clock_time):
    clock = FakeClock(clock_time, noisy(0.01, 0.5))
    result = measure(clock, nothing, settings(budget_seconds=2.5, half_width=0.001))
    assert result.stop_reason == "budget of 2.5 s spent"
    assert sum(result.samples_seconds) * result.batch >= 2.5
    assert sum(result.samples_seconds[:-1]) * result.batch < 2.5
    assert result.ci_low < result.median_seconds < result.ci_high


def test_the_budget_is_the_time_that_passes_and_not_only_what_the_device_counts(clock_time):
    clock = FakeClock(clock_time, noisy(0.01, 0.5), overhead=0.09)
    result = measure(clock, nothing, settings(budget_seconds=2.5, half_width=0.001))
    assert 20 <= len(result.samples_seconds) <= 30


@pytest.mark.parametrize("samples", [3, 4, 5, 7])
def test_a_budget_spent_before_enough_samples_says_how_many_there_are(clock_time, samples):
    clock = FakeClock(clock_time, noisy(1.0, 0.0001))
    result = measure(clock, nothing, settings(budget_seconds=samples - 0.5, min_samples=10))
    assert len(result.samples_seconds) == samples
    assert result.stop_reason == f"budget of {samples - 0.5:g} s spent after {samples} samples"
    assert (result.ci_low is None, result.ci_high is None) == (samples < 6, samples < 6)
    assert result.median_seconds == statistics.median(result.samples_seconds)


@pytest.mark.parametrize("min_samples", [1, 2, 3, 10])
def test_there_are_never_fewer_than_three_samples(clock_time, min_samples):
    clock = FakeClock(clock_time, constant(100.0))
    result = measure(clock, nothing, settings(budget_seconds=0.1, min_samples=min_samples))
    assert len(result.samples_seconds) == FEWEST_SAMPLES == 3
    assert "budget" in result.stop_reason
    assert result.ci_low is None
    assert result.ci_high is None


def test_every_sample_is_kept_in_its_order_and_none_of_the_warm_up(clock_time):
    clock = FakeClock(clock_time, noisy(0.01, 0.3))
    result = measure(clock, nothing, settings(budget_seconds=1.0, warm_up_seconds=0.3, half_width=0.001))
    kept = len(result.samples_seconds)
    assert kept < len(clock.seconds)
    assert result.samples_seconds == clock.seconds[-kept:]


# Warm-up and batches


def test_warming_up_goes_on_for_its_time_and_is_not_kept(clock_time):
    # Ten times slower at first, as a device is before its clock has risen.
    clock = FakeClock(clock_time, itertools.chain([0.1] * 5, constant(0.01)))
    result = measure(clock, nothing, settings(warm_up_seconds=0.5))
    warm_up = clock.seconds[: -len(result.samples_seconds)]
    assert sum(warm_up) >= 0.5
    assert set(result.samples_seconds) == {0.01}


def test_a_warm_device_is_ready_once_batches_take_the_same_time_at_the_same_clock(clock_time):
    for clocks, batches in ((itertools.repeat(1980), 5), (itertools.count(1000, 15), 50)):
        clock = FakeClock(clock_time, itertools.chain([0.02], constant(0.01)))
        result = measure(clock, nothing, settings(), lambda clocks=clocks: reading(next(clocks)), warm=True)
        assert len(clock.seconds) - len(result.samples_seconds) == pytest.approx(batches, abs=1)
    clock = FakeClock(clock_time, noisy(0.01, 0.1))
    result = measure(clock, nothing, settings(), warm=True)
    assert sum(clock.seconds[: -len(result.samples_seconds)]) >= 0.5


@pytest.mark.parametrize(("slower", "warm", "batches"), [(1.3, True, 2), (1.2, True, 50), (1.3, False, 50)])
def test_a_case_that_is_far_behind_need_not_be_at_its_steadiest_on_a_warm_device(slower, warm, batches, clock_time):
    clock = FakeClock(clock_time, itertools.cycle([0.01, 0.0102]))
    read = itertools.count(1000, 15)
    result = measure(
        clock, nothing, settings(), lambda: reading(next(read)), behind=0.01 / slower, look_once=True, warm=warm
    )
    assert result.stop_reason == OUTRACED
    assert len(clock.seconds) - len(result.samples_seconds) == pytest.approx(batches, abs=1)


def test_without_warm_up_time_one_evaluation_still_goes_first(clock_time):
    clock = FakeClock(clock_time, itertools.chain([1.0], constant(0.01)))
    result = measure(clock, nothing, settings(warm_up_seconds=0.0))
    assert 1.0 not in result.samples_seconds


@pytest.mark.parametrize(
    ("evaluation", "batch"),
    [(1.0, 1), (0.002, 1), (0.0011, 2), (0.0003, 7), (0.00001, 200), (0.000001, MOST_BATCH), (1e-9, MOST_BATCH)],
)
def test_a_sample_is_as_many_evaluations_as_fill_its_time_and_at_most_512(clock_time, evaluation, batch):
    clock = FakeClock(clock_time, constant(evaluation), overhead=0.0001)
    launched = []
    result = measure(clock, lambda: launched.append(1), settings(sample_seconds=0.002, budget_seconds=0.02))
    assert MOST_BATCH == 512
    assert result.batch == batch
    assert set(clock.batches[-len(result.samples_seconds) :]) == {batch}
    assert len(launched) == sum(clock.batches)
    assert result.batch * evaluation >= 0.002 or result.batch == MOST_BATCH


def test_a_batch_of_several_kernels_is_as_many_fewer(clock_time):
    # What the driver lets wait is launches, not steps.
    clock = FakeClock(clock_time, constant(0.000001), overhead=0.0001)
    assert measure(clock, nothing, settings(sample_seconds=0.002, budget_seconds=0.02), kernels=2).batch == 256


def test_a_slow_first_evaluation_does_not_make_samples_too_short(clock_time):
    # The first call also loads what it needs.
    clock = FakeClock(clock_time, itertools.chain([0.05], constant(0.0001)))
    result = measure(clock, nothing, settings(sample_seconds=0.002, warm_up_seconds=0.5))
    assert result.batch * 0.0001 >= 0.002


def test_a_batch_is_tried_before_it_is_kept(clock_time):
    # The first evaluation says 4 are enough; those say 200.
    clock = FakeClock(clock_time, itertools.chain([0.0005], constant(0.00001)))
    assert measure(clock, nothing, settings(sample_seconds=0.002, warm_up_seconds=0.0)).batch == 200


def test_the_time_of_a_launch_is_the_median_and_absent_on_the_host(clock_time):
    assert measure(FakeClock(clock_time, constant(0.01), 3e-6), nothing, settings()).launch_seconds == 3e-6
    assert measure(FakeClock(clock_time, constant(0.01)), nothing, settings()).launch_seconds is None


# Readings


def test_there_is_one_reading_a_sample(clock_time):
    clocks = itertools.count(1000)
    result = measure(FakeClock(clock_time, constant(0.01)), nothing, settings(), lambda: reading(next(clocks), 1.5, 40))
    count = len(result.samples_seconds)
    assert result.sm_clock_mhz == list(range(1000, 1000 + count))
    assert result.power_watts == [1.5] * count
    assert result.temperature_celsius == [40] * count


def test_a_reading_that_is_refused_is_left_out(clock_time):
    answers = itertools.cycle([reading(), None])
    result = measure(FakeClock(clock_time, constant(0.01)), nothing, settings(), lambda: next(answers))
    assert len(result.sm_clock_mhz) == 5
    assert len(result.samples_seconds) == 10
    assert not result.throttled


def test_no_reading_at_all_is_no_throttling(clock_time):
    result = measure(FakeClock(clock_time, constant(0.01)), nothing, settings())
    assert result.sm_clock_mhz == result.power_watts == result.throttle_reasons == []
    assert result.throttled is None


def test_a_device_that_does_not_tell_reasons_is_neither_throttled_nor_not(clock_time):
    silent = Reading(sm_clock_mhz=None, power_watts=None, temperature_celsius=None, throttle_reasons=None)
    result = measure(FakeClock(clock_time, constant(0.01)), nothing, settings(), lambda: silent)
    assert result.throttled is None
    assert result.sm_clock_mhz == result.power_watts == result.temperature_celsius == []


@pytest.mark.parametrize("reason", sorted(HARMLESS))
def test_a_harmless_reason_is_kept_and_is_no_throttling(clock_time, reason):
    clock = FakeClock(clock_time, constant(0.01))
    result = measure(clock, nothing, settings(), lambda: reading(reasons=[reason]))
    assert result.throttle_reasons == [reason]
    assert result.throttled is False


@pytest.mark.parametrize("reason", sorted(set(CLOCK_REASONS.values()) - HARMLESS))
def test_one_reading_with_a_real_reason_is_throttling(clock_time, reason):
    answers = itertools.chain([reading(reasons=["gpu idle", reason])], itertools.repeat(reading()))
    result = measure(FakeClock(clock_time, constant(0.01)), nothing, settings(), lambda: next(answers))
    assert result.throttled
    assert result.throttle_reasons == sorted(["gpu idle", reason])


def test_what_slowed_the_warm_up_down_is_not_held_against_the_samples(clock_time):
    clock = FakeClock(clock_time, constant(0.01))

    def read():
        # Warm-up lasts half a second of the own time.
        return reading(reasons=["hw slowdown"] if clock_time.now < 1000.45 else [])

    assert not measure(clock, nothing, settings(warm_up_seconds=0.5), read).throttled


@pytest.mark.parametrize(("seconds", "told"), [(0.0101, True), (0.0099, False)])
def test_energy_is_told_where_the_counter_had_half_a_second_to_move(clock_time, seconds, told):
    """26 samples of two evaluations each: 25 times 20.2 or 19.8 ms from the first reading to the last."""
    counter = itertools.count(100.0, 1.4)
    result = measure(
        FakeClock(clock_time, constant(seconds)), nothing,
        settings(min_samples=26, sample_seconds=1.5 * seconds, warm_up_seconds=0),
        lambda: Reading(None, None, None, None, joules=next(counter)),
    )  # fmt: skip
    assert (result.batch, len(result.samples_seconds)) == (2, 26)
    assert result.joules == (pytest.approx(0.7) if told else None)


@pytest.mark.parametrize("every", [1, 3, 7])
def test_the_energy_is_that_of_all_samples_between_two_readings_that_have_it(clock_time, every):
    count = itertools.count()

    def read():
        number = next(count)
        return Reading(None, None, None, None, joules=None if number % every else 0.7 * number)

    result = measure(FakeClock(clock_time, constant(0.1)), nothing, settings(min_samples=29), read)
    assert result.joules == pytest.approx(0.7 / result.batch)


def test_a_device_without_a_counter_of_energy_tells_none(clock_time):
    result = measure(FakeClock(clock_time, constant(0.1)), nothing, settings(min_samples=20), reading)
    assert result.joules is None


def test_a_stage_lasts_until_the_device_is_done_and_the_first_evaluation_is_not_counted(clock_time):
    """Stages of 1 and 2 ms on the device, for which the host asks in 0.1 ms: in 7 s the first time and three more."""
    evaluations = []
    device = SimpleNamespace(busy_until=clock_time.now)

    def wait():
        clock_time.now = max(clock_time.now, device.busy_until)

    device.synchronize = wait

    def stages(lap):
        evaluations.append(1)
        for name in ("build", "traverse"):
            clock_time.pass_by(7.0 if len(evaluations) <= 4 else 1e-4)
            device.busy_until = clock_time.now + 1e-3 * (1 + (name == "traverse"))
            lap(name)

    found = measuring.stage_seconds(device.synchronize, stages)
    assert len(evaluations) == measuring.STAGED + 1
    assert found == {"build": pytest.approx(1.1e-3), "traverse": pytest.approx(2.1e-3)}


def test_a_stage_that_comes_twice_in_an_evaluation_lasts_as_long_as_both(clock_time):
    def stages(lap):
        for name, seconds in (("upload", 1e-3), ("traverse", 5e-3), ("upload", 3e-3)):
            clock_time.pass_by(seconds)
            lap(name)

    found = measuring.stage_seconds(nothing, stages)
    assert found == {"upload": pytest.approx(4e-3), "traverse": pytest.approx(5e-3)}


def test_what_looks_between_samples_costs_neither_budget_nor_energy(clock_time):
    """A look of 10 s at 1,000 W after the second sample; samples take 0.1 s at 7 W."""
    joules = [0.0]

    def look(samples):
        if samples == 2:
            clock_time.pass_by(10.0)
            joules[0] += 1e4
        return samples == 2

    def told():
        joules[0] += 0.7
        return Reading(None, None, None, None, joules=joules[0])

    result = measure(FakeClock(clock_time, constant(0.1)), nothing, settings(min_samples=12), told, look=look)
    assert len(result.samples_seconds) == 12
    assert result.joules == pytest.approx(0.7 / result.batch)


# Holding the device while the host queues a batch


class FakeEvent:
    """A point in the only stream of a device."""

    def __init__(self, device):
        self.device = device
        self.at = None

    def record(self, stream):
        assert stream == 0
        self.at = max(self.device.free_at, self.device.time_of.now)

    def passed(self):
        return self.device.time_of.now >= self.at

    def seconds_since(self, start):
        self.device.time_of.now = max(self.device.time_of.now, self.at)
        return self.at - start.at


class FakeGpu(GpuToolkit):
    """A device that works through a queue on its own time: the host's launches cost time on the host's."""

    def __init__(self, time, launch_seconds, kernel_seconds):
        self.time_of = time
        self.launch_cost = launch_seconds
        self.kernel_seconds = kernel_seconds
        self.free_at = 0.0
        self.holds = []
        self.dtype = "float32"

    def launch(self):
        self.time_of.pass_by(self.launch_cost)
        self.free_at = max(self.free_at, self.time_of.now) + self.kernel_seconds

    def hold(self, microseconds):
        self.holds.append(microseconds)
        self.free_at = max(self.free_at, self.time_of.now) + microseconds * 1e-6

    def event(self):
        return FakeEvent(self)

    def synchronize(self):
        self.time_of.now = max(self.time_of.now, self.free_at)

    def upload(self, values):
        raise NotImplementedError

    start = host_array = device_array = stream = send = fetch = upload

    def copy_in(self, array, values):
        raise NotImplementedError

    def download(self, array):
        raise NotImplementedError

    def build(self, stem, constants):
        raise NotImplementedError

    @property
    def compiler(self):
        return "none"


def test_a_batch_that_is_queued_in_time_is_timed_at_once(clock_time):
    gpu = FakeGpu(clock_time, launch_seconds=2e-6, kernel_seconds=1e-6)
    timing = gpu.time(gpu.launch, 50)
    assert gpu.holds == [200]
    assert timing.seconds == pytest.approx(1e-6)
    assert timing.launch_seconds == pytest.approx(2e-6)


def test_the_hold_is_lengthened_until_the_device_waits_for_the_whole_batch(clock_time):
    # 500 launches of 10 microseconds: 5 ms on the host, 0.5 ms on the device.
    gpu = FakeGpu(clock_time, launch_seconds=10e-6, kernel_seconds=1e-6)
    timing = gpu.time(gpu.launch, 500)
    assert gpu.holds == [200, 400, 800, 1600, 3200, 6400]
    assert timing.seconds == pytest.approx(1e-6), "this is the host's time, not the device's"
    assert not timing.launch_bound
    gpu.time(gpu.launch, 500)
    assert gpu.holds[6:] == [6400], "what was learnt is forgotten"


def test_it_gives_up_at_the_longest_hold_and_still_answers(clock_time):
    gpu = FakeGpu(clock_time, launch_seconds=1.0, kernel_seconds=1e-6)
    timing = gpu.time(gpu.launch, 2)
    assert gpu.holds[-1] >= LONGEST_HOLD
    assert gpu.holds[-2] < LONGEST_HOLD
    assert timing.launch_seconds == pytest.approx(1.0)
    assert timing.launch_bound
    gpu.time(gpu.launch, 2)
    assert len(gpu.holds) == len(set(gpu.holds)) + 1


def test_an_evaluation_that_outlasts_its_launch_needs_no_longer_hold(clock_time):
    # 300 launches of 10 microseconds outlast the hold, but a kernel of 100 never waits for the next launch.
    gpu = FakeGpu(clock_time, launch_seconds=10e-6, kernel_seconds=100e-6)
    timing = gpu.time(gpu.launch, 300)
    assert gpu.holds == [200]
    assert timing.seconds == pytest.approx(100e-6)
    assert not timing.launch_bound


@pytest.mark.parametrize(("kernel_seconds", "bound"), [(19e-6, True), (21e-6, False)])
def test_a_batch_is_launch_bound_where_an_evaluation_is_not_twice_its_launch(clock_time, kernel_seconds, bound):
    """300 launches of 10 microseconds outlast the hold; times near that of a launch may be the host's own."""
    gpu = FakeGpu(clock_time, launch_seconds=10e-6, kernel_seconds=kernel_seconds)
    gpu.time(gpu.launch, 300)
    assert (len(gpu.holds) > 1) == bound


class FakeJax(JaxToolkit):
    """JAX on a device that works through a queue on its own time."""

    def __init__(self, time, launch_seconds, kernel_seconds):
        self.time_of = time
        self.launch_cost = launch_seconds
        self.kernel_seconds = kernel_seconds
        self.free_at = time.now
        self.jax = SimpleNamespace(block_until_ready=lambda _: self.wait_for_all())

    def wait_for_all(self):
        self.time_of.now = max(self.time_of.now, self.free_at)

    def launch(self):
        self.time_of.pass_by(self.launch_cost)
        self.free_at = max(self.free_at, self.time_of.now) + self.kernel_seconds


@pytest.mark.parametrize(("kernel_seconds", "bound"), [(19e-6, True), (21e-6, False), (1e-3, False)])
def test_jax_is_timed_until_the_last_result_is_there(clock_time, kernel_seconds, bound):
    toolkit = FakeJax(clock_time, launch_seconds=10e-6, kernel_seconds=kernel_seconds)
    for _ in range(5):  # what was queued before is none of it
        toolkit.launch()
    read_at = []
    timing = toolkit.time(toolkit.launch, 100, lambda: read_at.append(clock_time.now))
    assert timing.seconds == pytest.approx(kernel_seconds + 10e-6 / 100)
    assert timing.launch_seconds == pytest.approx(10e-6)
    assert timing.launch_bound == bound
    assert read_at == [toolkit.free_at]


@pytest.mark.parametrize("launch_seconds", [1e-6, 0.2])
def test_a_measurement_says_whether_the_device_waited_for_the_host(clock_time, launch_seconds):
    gpu = FakeGpu(clock_time, launch_seconds=launch_seconds, kernel_seconds=1e-6)
    assert measure(gpu, gpu.launch, settings(sample_seconds=1e-5)).launch_bound == (launch_seconds == 0.2)


@pytest.mark.parametrize(("kernels", "batch"), [(1, 512), (2, 256), (3, 256), (5, 128)])
def test_a_batch_is_so_short_that_all_kernels_of_its_launches_can_wait(clock_time, kernels, batch):
    """What queues more kernels per launch than it says fills the driver's queue while the device is held."""

    class Queue(FakeGpu):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, **options)
            self.waiting = deque()

        def launch(self):
            for _ in range(kernels):
                while self.waiting and self.waiting[0] <= self.time_of.now:
                    self.waiting.popleft()
                if len(self.waiting) >= 1000:
                    self.time_of.now = self.waiting.popleft()
                super().launch()
                self.waiting.append(self.free_at)

    gpu = Queue(clock_time, launch_seconds=3e-6, kernel_seconds=1e-6)
    found = measure(gpu, gpu.launch, settings(sample_seconds=0.005))
    assert found.batch == batch
    assert not found.launch_bound
    assert found.median_seconds == pytest.approx(kernels * 1e-6, rel=0.05)
    assert gpu.holds[-1] <= 6400, "of a shorter batch a shorter hold is enough"


def test_the_device_is_read_while_it_works(clock_time):
    gpu = FakeGpu(clock_time, launch_seconds=2e-6, kernel_seconds=1e-4)
    busy = []
    gpu.time(gpu.launch, 50, lambda: busy.append(gpu.free_at > clock_time.now))
    assert busy == [True]


def test_a_batch_that_is_repeated_behind_a_longer_hold_leaves_one_reading(clock_time):
    gpu = FakeGpu(clock_time, launch_seconds=2e-6, kernel_seconds=1e-6)
    read_behind = []

    def read():
        # After the first sample the host is slower, so that the batch of the second is repeated.
        gpu.launch_cost = 10e-6
        read_behind.append(gpu.holds[-1])
        return reading(clock=gpu.holds[-1])

    result = measure(gpu, gpu.launch, settings(sample_seconds=0.0005, warm_up_seconds=0.1), read)
    assert len(set(gpu.holds)) > 2
    assert len(read_behind) > len(result.samples_seconds)
    # It is that of the try whose time is kept: the one behind the longest hold.
    assert result.sm_clock_mhz[1:] == [gpu.holds[-1]] * (len(result.samples_seconds) - 1)
