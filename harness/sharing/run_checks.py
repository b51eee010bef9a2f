"""Checks of a run as a whole: its files, its arithmetic, its plan, its devices and its bodies."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable
from dataclasses import replace

from gravbench.errors import InputError, listed
from gravbench.explain.shape import shape_of
from gravbench.model import derived, interaction_files, merged, runs
from gravbench.model.generated_bodies import is_generated
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.merged import Source
from gravbench.model.record import Record
from gravbench.sharing import merkle
from gravbench.sharing.bundle import CRATE, FACTS, OUTSIDE, TREE, Bundle, digests_of, parsed
from gravbench.sharing.outcome import Outcome, at, counted, why_not
from gravbench.verdicts import fastest

MOST_MULTIPROCESSORS = 4096
"""More than any device has: a launch that shows more shows nothing."""
MOST_GENERATED = 1 << 24
"""Bodies that are generated again in all, the smallest sets first."""


def hashes(bundle: Bundle) -> Outcome:
    """Compute the hash of every file, and the root."""
    tree = parsed(bundle.files[TREE])
    stated = tree.get("files") if isinstance(tree, dict) else None
    if not isinstance(stated, dict):
        return Outcome([f"{TREE}: no hashes of files"])
    digests = digests_of(bundle.files)
    findings = [f"{name}: is not in the tree" for name in sorted(digests.keys() - stated.keys())]
    findings += [f"{name}: is in the tree and not in the bundle" for name in sorted(stated.keys() - digests.keys())]
    findings += [
        f"{name}: has another hash than the tree says"
        for name in digests
        if name in stated and stated[name] != digests[name]
    ]
    if tree.get("root") != merkle.root(digests):
        findings.append(f"{TREE}: its root is not that of these files")
    return Outcome(findings, scope=counted(len(digests), "file"))


def description(bundle: Bundle) -> Outcome:
    """Compare the files with those that the RO-Crate describes."""
    crate = parsed(bundle.files[CRATE])
    graph = crate.get("@graph") if isinstance(crate, dict) else None
    entities = [entity for entity in graph if isinstance(entity, dict)] if isinstance(graph, list) else []
    sizes = {str(entity.get("@id")): entity.get("contentSize") for entity in entities if entity.get("@type") == "File"}
    there = {name: str(len(content)) for name, content in bundle.files.items() if name not in (CRATE, *OUTSIDE)}
    findings = [f"{name}: {CRATE} does not describe it" for name in sorted(there.keys() - sizes.keys())]
    findings += [f"{name}: {CRATE} describes it, but it is not there" for name in sorted(sizes.keys() - there.keys())]
    findings += [
        f"{name}: {CRATE} says {sizes[name]} bytes, but it has {size}"
        for name, size in there.items()
        if name in sizes and sizes[name] != size
    ]
    return Outcome(findings)


def schema(bundle: Bundle) -> Outcome:
    """Say which files and lines were not what they have to be."""
    findings = list(bundle.mistakes)
    if bundle.facts is not None:
        counted_here = dict(Counter(record.status for record in bundle.records.values()))
        if bundle.facts.records != counted_here:
            findings.append(
                f"{FACTS}: records are {json.dumps(bundle.facts.records)}, but there are {json.dumps(counted_here)}"
            )
    return Outcome(findings, scope=counted(len(bundle.records), "record"))


def arithmetic(bundle: Bundle) -> Outcome:
    """Compute everything again that a record derives, and compare what has to be equal within a run."""
    findings = []
    flops: dict[Hashable, float] = {}
    for number, record in bundle.records.items():
        try:
            derived.check(record, intervals=True)
        except derived.ContradictionError as error:
            findings.append(f"{at(number, record)}: {error}")
        known = flops.setdefault((record.interaction, record.interaction_sha256), record.flops_per_interaction)
        if known != record.flops_per_interaction:
            findings.append(
                f"{at(number, record)}: flops_per_interaction is {record.flops_per_interaction:g}, elsewhere {known:g}"
            )
    return Outcome(findings, scope=counted(len(bundle.records), "record"))


def plan(bundle: Bundle) -> Outcome:
    """Compare the records with the plan of the run, and count the repetitions of anchors."""
    source = bundle.run
    findings, unchecked = [], []
    if bundle.starts and all(start.sweep for start in bundle.starts):
        findings += _wrong_starts(bundle)
        try:
            merged.check_cases(source)
        except InputError as error:
            findings.append(str(error))
    else:
        unchecked.append("which cases were planned: the run is of a version that recorded only how many")
    missing, stated = lacking(source), bundle.facts.lacking if bundle.facts else 0
    if missing != stated:
        findings.append(f"{counted(missing, 'planned result')} without a record, but {FACTS} says {stated:,}")
    elif missing:
        unchecked.append(
            f"{counted(missing, 'planned result')} without a record, as {FACTS} says: a run that was ended early "
            "looks like one from which records were removed"
        )
    return Outcome(findings + _anchors(bundle) + _twice(bundle), unchecked)


def lacking(run: Source) -> int:
    """Return how many planned results of a run have no record.

    Of what its starts planned the least counts: a start that continues a run counts repeated anchors twice.
    """
    planned: dict[str | None, int] = {}
    for start in run.starts:
        if start.planned is not None:
            planned[start.shard] = min(start.planned, planned.get(start.shard, start.planned))
    without = len(run.keys.difference(record.key for record in run.records))
    return max(sum(planned.values()) - len(runs.latest(run.records)), without, 0)


def _wrong_starts(bundle: Bundle) -> list[str]:
    """Say which start of the run does not agree with the list of its cases."""
    findings = []
    for number, start in enumerate(bundle.starts, 1):
        if start.sweep and start.sweep.sha256 != start.sweep_sha256:
            findings.append(f"start {number}: sweep_sha256 is not the hash of the cases and settings in sweep")
        if start.planned is not None and start.planned < len(start.keys):
            findings.append(
                f"start {number}: planned is {start.planned:,}, but the sweep has {len(start.keys):,} cases"
            )
    return findings


def _anchors(bundle: Bundle) -> list[str]:
    """Say of which anchor on which device a repetition is missing or there twice."""
    numbers: dict[Hashable, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    labels: dict[Hashable, str] = {}
    for record in bundle.records.values():
        if record.anchor:
            key = record.identity, record.device_uuid or record.device
            numbers[key][record.anchor].add(record.started)
            labels[key] = record.label
    return [
        f"anchor {labels[key]}: repetition {listed(map(str, missing))} is missing"
        for key, repetitions in numbers.items()
        if (missing := sorted(set(range(1, max(repetitions) + 1)) - repetitions.keys()))
    ]


def _twice(bundle: Bundle) -> list[str]:
    """Say which results are two of one case, device, repetition and moment, and yet have other samples."""
    known: dict[Hashable, tuple[int, Record]] = {}
    findings = []
    for number, record in bundle.records.items():
        if record.samples_seconds:
            measured = record.identity, record.device_uuid or record.device, record.anchor, record.started
            first, other = known.setdefault(measured, (number, record))
            if other.samples_seconds != record.samples_seconds:
                findings.append(f"{at(number, record)}: began when line {first} did, and has other samples")
    return findings


def devices(bundle: Bundle) -> Outcome:
    """Compare devices of records with those of the run, with each other, and with cards of that name measured here."""
    findings = []
    try:
        merged.check_devices(bundle.run)
    except InputError as error:
        findings.append(str(error))
    facts: dict[tuple[str, str], tuple[object, int]] = {}
    for number, record in bundle.records.items():
        if record.device is None:
            continue
        named = {"compute_capability": record.compute_capability, "multiprocessors": multiprocessors_of(record)}
        of_name = [(record.device, what, value) for what, value in named.items()]
        of_card = [(record.device_uuid, "device", record.device)] if record.device_uuid else []
        for what, kind, value in of_name + of_card:
            if value is None:
                continue
            known, first = facts.setdefault((str(what), kind), (value, number))
            if known != value:
                findings.append(f"{at(number, record)}: {kind} is {value}, but {known} in line {first}")
    cards = {table.card.name: table.card for table in _cards()}
    unknown = sorted({str(name) for name, kind in facts if kind == "multiprocessors"} - cards.keys())
    for (name, kind), (known, number) in facts.items():
        expected = getattr(cards[name], kind, None) if name in cards else None
        if expected is not None and expected != known:
            findings.append(
                f"line {number}: {name} with {kind} {known}; those measured for this version have {expected}"
            )
    return Outcome(findings, [f"{name}: no card of this name was measured for this version" for name in unknown])


def _cards() -> list[fastest.Measured]:
    return [measured for table in fastest.packaged() for measured in table.measured]


def multiprocessors_of(record: Record) -> int | None:
    """Return how many multiprocessors the launch of a record shows; None where it shows none."""
    try:
        multiprocessors = shape_of(record).multiprocessors
    except (UnmodelledError, OverflowError):
        return None
    return multiprocessors if multiprocessors <= MOST_MULTIPROCESSORS else None


def bodies(bundle: Bundle) -> Outcome:
    """Compare the hashes of bodies within the run, and with what generators make here where these make equal bits."""
    findings, unchecked = [], []
    known: dict[Hashable, tuple[str, int]] = {}
    for number, record in bundle.records.items():
        if record.bodies_sha256 is None:
            continue
        problem = (
            record.bodies,
            record.bodies_file_sha256,
            record.n,
            record.seed,
            record.eps,
            record.subset,
            record.planar,
        )
        sha256, first = known.setdefault(problem, (record.bodies_sha256, number))
        if sha256 != record.bodies_sha256:
            findings.append(f"{at(number, record)}: other bodies than line {first} has for the same problem")
    some, left = _soon_generated(bundle)
    unchecked += why_not(["generating its bodies again takes long"] * left, "record")
    try:
        merged.check_bodies([some], lambda sentence: unchecked.append(sentence.partition(": ")[2]))
    except InputError as error:
        findings.append(str(error))
    files = sum(not is_generated(record.bodies) for record in bundle.records.values())
    unchecked += why_not(["its bodies are of a file, which is not shared"] * files, "record")
    return Outcome(findings, unchecked)


def _soon_generated(bundle: Bundle) -> tuple[Source, int]:
    """Return the run with the records whose bodies are generated again, and how many others have generated bodies."""
    generated = {line: record for line, record in bundle.records.items() if is_generated(record.bodies)}
    problems: set[Hashable] = set()
    total = 0
    for record in sorted(generated.values(), key=lambda record: record.n):
        if _made_of(record) not in problems and total + record.n <= MOST_GENERATED:
            problems.add(_made_of(record))
            total += record.n
    some = {line: record for line, record in generated.items() if _made_of(record) in problems}
    return replace(bundle.run, lines=some), len(generated) - len(some)


def _made_of(record: Record) -> Hashable:
    return record.bodies, record.n, record.seed, record.eps, record.planar


def tolerances(bundle: Bundle) -> Outcome:
    """Compare errors with the tolerances of the variants of this checkout, and of its own interactions."""
    known = interaction_files.packaged()
    merged.check_tolerances(
        replace(
            bundle.run, lines={line: record for line, record in bundle.records.items() if record.interaction in known}
        )
    )
    return Outcome()
