"""Where the time of a record goes: parts in picoseconds per interaction that add up to what was measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gravbench.explain.model import (
    LOADED,
    clock_under,
    clocks_of,
    costs_of,
    freed,
    predict,
    reported_clock,
    small_launch,
)
from gravbench.explain.peaks import Peaks
from gravbench.explain.pipes import TENSOR, pipe_of
from gravbench.explain.schedule import SCHEDULERS, XU, Costs, busy_of, kind_of, operands, unit_of
from gravbench.explain.shape import LANES, Shape, shape_of
from gravbench.explain.work import Work, work_of
from gravbench.model.record import Record

NEEDED = ("FMA", "XU", "FP64", TENSOR)
"""The pipes that do the arithmetic of an interaction: its products, sums and reciprocal square roots."""
PICO = 1e12
UNEXPLAINED = "unexplained"
"""The name of the last part of a waterfall: the measured time less that of all other parts."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the time: picoseconds per interaction, and a sentence that says what it is and how it is known."""

    name: str
    picoseconds: float
    reason: str


def waterfall(record: Record, architecture: str, rates: Peaks, kernel: str | None = None) -> tuple[Part, ...]:
    """Divide the time of a record among its causes; the last part, ``UNEXPLAINED``, may be below zero.

    It is that of ``kernel``, or of the first one that has a loop over interactions.

    The parts add up to the measured picoseconds per interaction.

    Raises:
        UnmodelledError: the record does not tell how its kernel was launched, or the kernel has no loop over
            interactions.
        InputError: the kernel cannot be compiled or read here.
    """
    shape, costs = shape_of(record), costs_of(rates)
    work = work_of(record, architecture, shape, kernel)
    assert record.median_seconds is not None
    measured = record.median_seconds * PICO / record.evaluated
    # One instruction of an interaction, on all schedulers of the device at its highest clock.
    slot = PICO / (shape.multiprocessors * SCHEDULERS * LANES * rates.clock * 1e6)
    everything = work.length
    needed = sum(times for instruction, times in work.weighted if pipe_of(instruction.opcode) in NEEDED)
    blocks = shape.most

    def per_interaction(**change: bool) -> float:
        return clocks_of(work, shape, blocks, freed(costs, **change))

    units = max(everything, per_interaction(operands=False))
    banks = max(units, per_interaction(operands=True))
    waiting = max(banks, clocks_of(work, shape, blocks, costs))
    predicted = predict(record, work, rates, costs)
    reported = reported_clock(record, rates)
    actual = clock_under(work, reported, rates)
    # What is launched beside the kernel's own stage is in the time of the others.
    launches = 1 if work.stage else work.launches
    at_highest = predicted.kernel * actual / rates.clock * PICO / record.evaluated
    parts = [
        Part("arithmetic", needed * slot, f"{needed:.2f} arithmetic instructions per interaction"),
        Part("other instructions", (everything - needed) * slot, _others(work, everything - needed)),
        Part("pipes", (units - everything) * slot, _units(work, costs, units - everything, rates)),
        Part("register banks", (banks - units) * slot, _banks(work, banks - units, rates)),
        Part("latency", (waiting - banks) * slot, _latency(shape, waiting - banks, rates)),
        Part("tail of the grid", at_highest - waiting * slot, _tail(shape, work)),
        Part(
            "clock",
            (predicted.kernel - predicted.kernel * actual / rates.clock) * PICO / record.evaluated,
            _clock(reported, actual, rates),
        ),
        Part(
            "launch",
            (rates.value("launch_stream") + (launches - 1) * small_launch(rates)) * PICO / record.evaluated,
            _launches(launches, rates),
        ),
    ]
    if work.stage:
        parts.append(_other_stages(record, work, rates))
    rest = measured - sum(part.picoseconds for part in parts)
    return (*parts, Part(UNEXPLAINED, rest, f"not explained by the model, {rest / measured:+.1%} of the time"))


def _other_stages(record: Record, work: Work, rates: Peaks) -> Part:
    """Return what is launched beside the stage of the kernel."""
    stages, small = record.stages_seconds, small_launch(rates)
    assert record.median_seconds is not None
    seconds = record.median_seconds - stages[work.stage]
    least = (work.launches - 1) * small
    if seconds < least:  # a stage that is measured separately takes longer
        seconds = least
        reason = f"{work.launches - 1} small kernels of {1e6 * small:.2f} µs each ({rates.source('launch_small')})"
    else:
        others = ", ".join(f"{name} {1e6 * of_stage:.0f}" for name, of_stage in stages.items() if name != work.stage)
        reason = (
            f"the rest of the evaluation beyond its stage {work.stage} ({1e6 * stages[work.stage]:.0f} µs); the other "
            f"stages, each measured separately, in µs: {others} (from the record)"
        )
    return Part("other stages", seconds * PICO / record.evaluated, reason)


def _others(work: Work, extra: float) -> str:
    more = f"{extra:.2f} more instructions per interaction: loads, addresses"
    if len(work.parts) > 1:
        shares: dict[str, float] = {}
        for part in work.parts:
            shares[part.name] = shares.get(part.name, 0.0) + part.done.length * part.times / work.length
        return f"{more} and loop control; shares of all instructions: {_shares(shares)}"
    (part,) = work.parts
    staging = len(part.done.before) + len(part.done.after)
    if not staging:
        return f"{more} and loop control"
    return f"{more}, loop control, and {staging} that stage the {1 / part.times:.0f} interactions of a tile"


def _shares(shares: Mapping[str, float]) -> str:
    """List names with their shares in percent."""
    return ", ".join(f"{name} {share:.0%}" for name, share in shares.items())


def _units(work: Work, costs: Costs, extra: float, rates: Peaks) -> str:
    spent: dict[str, float] = {}
    for instruction, times in work.weighted:
        unit = unit_of(kind_of(instruction))
        spent[unit] = spent.get(unit, 0.0) + times * busy_of(instruction, costs.busy)
        if unit == TENSOR:
            spent[XU] = spent.get(XU, 0.0) + times * costs.hindrance
    fullest = max(spent, key=lambda unit: spent[unit])
    return (
        f"{extra:.2f} clocks in which warps wait for a pipe; the busiest, {fullest}, is busy for"
        f" {spent[fullest]:.1f} clocks per warp interaction ({rates.source('mufu', 'lds_128', 'alu')})"
    )


def _banks(work: Work, extra: float, rates: Peaks) -> str:
    each = sum(max(pair) * part.done.turns * part.times for part in work.parts for pair in operands(part.done.inner))
    return (
        f"{extra:.2f} clocks: the busier register bank delivers {each:.1f} operands per interaction, one per clock"
        f" ({rates.source('fma_3')})"
    )


def _latency(shape: Shape, extra: float, rates: Peaks) -> str:
    warps = shape.warps_of(shape.most)
    return (
        f"{extra:.2f} clocks in which {_stalled(warps)} ({rates.source('latency_mufu', 'latency_lds', 'latency_l2')})"
    )


def _stalled(warps: int) -> str:
    return f"none of the scheduler's {warps} warps can issue" if warps > 1 else "the scheduler's only warp cannot issue"


def _clock(reported: float, actual: float, rates: Peaks) -> str:
    highest = f"the highest clock is {rates.clock:,.0f} MHz"
    if actual == reported:
        return f"it ran at {actual:,.0f} MHz; {highest}"
    return (
        f"the driver reported {reported:,.0f} MHz, but with matrix products multiprocessors run at {actual:,.0f} MHz"
        f" ({rates.source(LOADED)}); {highest}"
    )


def _launches(launches: int, rates: Peaks) -> str:
    first, small = (1e6 * seconds for seconds in (rates.value("launch_stream"), small_launch(rates)))
    if launches == 1:
        return f"1 launch of {first:.2f} µs ({rates.source('launch_stream')})"
    each = f"{first:.2f} µs each" if small == first else f"{first:.2f} µs for the first, {small:.2f} µs for each other"
    return f"{launches} launches, {each} ({rates.source('launch_stream')})"


def _tail(shape: Shape, work: Work) -> str:
    if work.each is not None:
        length = np.array([part.done.length for part in work.parts]) @ work.each
        return (
            f"{shape.blocks} blocks whose warps have different amounts of work: the longest warp executes"
            f" {length.max() / length.mean():.1f} times the mean number of instructions"
        )
    at_once = shape.resident * shape.multiprocessors
    if shape.blocks <= at_once:
        busiest = -(-shape.blocks // shape.multiprocessors)
        return (
            f"{shape.blocks} blocks on {shape.multiprocessors} multiprocessors: the busiest has {busiest}, the"
            f" average is {shape.blocks / shape.multiprocessors:.2f}"
        )
    return (
        f"{shape.blocks} blocks in {shape.blocks / at_once:.2f} waves of {at_once}: the last wave does not fill the"
        " multiprocessors"
    )
