"""Ways of tampering with a bundle, as somebody would who knows this code: what is derived is made to agree again.

Each way names the check that has to find it. ``HIDDEN`` are those that no check can find, as the how-to page says.
"""

import datetime
import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from conftest import ROOT
from gravbench.model import derived
from gravbench.model.extent import Extent
from gravbench.model.record import Record
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.statistics import ends
from gravbench.sharing import bundle, redaction, writing
from gravbench.sharing.bundle import CRATE, FACTS, OUTSIDE, TREE, Facts

CPU = "h200/fastest_cpu"
"""A packaged run with its plan, case by case."""
FOLDER = tempfile.TemporaryDirectory()


def part_of(name, variant, sizes=()):
    """Make a run of what a packaged run has of a variant, of some numbers of bodies or all, and return its folder."""
    whole, part = ROOT / "reports" / name, Path(FOLDER.name) / name / variant
    part.mkdir(parents=True)
    lines = (whole / RECORDS).read_text("utf-8").splitlines(keepends=True)
    fitting = [line for line in lines if f'"variant":"{variant}"' in line]
    wanted = [line for line in fitting if not sizes or json.loads(line)["n"] in sizes]
    (part / RECORDS).write_text("".join(wanted), "utf-8")
    (part / ENVIRONMENT).write_bytes((whole / ENVIRONMENT).read_bytes())
    return str(part)


def planned_part_of(name, variant):
    """Make a run of what a packaged run has of a variant, which was planned to be no more, and return its folder."""
    part = Path(part_of(name, variant))
    records = RecordFile(part).read()
    (start,) = json.loads((part / ENVIRONMENT).read_bytes())
    whole, keys = Extent.model_validate(start["sweep"]), {record.key for record in records}
    own = Extent.of([key for key in whole.cases if key in keys], [], whole.measure, whole.flops_per_interaction)
    start |= {"sweep": own.model_dump(), "sweep_sha256": own.sha256, "planned": len(records)}
    (part / ENVIRONMENT).write_text(json.dumps([start]), "utf-8")
    return str(part)


GPU = part_of("h100/ladder", "naive", sizes=(65536, 262144))
LONG = part_of("h100/fastest", "float64_sums")
ENERGY = part_of("h100/fastest-large", "tensor_half")
FAILURES = planned_part_of("h100/hard_bodies", "tensor_half")
"""Parts of packaged runs: a kernel of this checkout; cases of seconds; the energy of one case; invalid results."""
SOURCE = "code/naive-pycuda-gravity/kernel.cu"
CUBE, SQUARE = "inverse * (inverse * inverse)", "inverse * inverse"


@dataclass(frozen=True)
class Way:
    """A way of tampering: with which run, found by which check, and what it does to the files.

    Of one that is not ``sealed``, neither the tree of hashes nor the description is made anew.
    """

    run: str
    check: str
    change: object
    sealed: bool = True


def records_of(files):
    return [json.loads(line) for line in files[RECORDS].splitlines()]


def with_records(files, records, **facts):
    """Put records in the place of those that are there, and say how many there are."""
    stated = json.loads(files[FACTS]) | {"records": dict(Counter(fields["status"] for fields in records))} | facts
    return files | {
        RECORDS: b"".join(map(redaction.line, records)),
        FACTS: json.dumps(stated).encode(),
    }


def sealed(files):
    """Describe the files, and make their tree."""
    rest = {name: content for name, content in files.items() if name not in (CRATE, *OUTSIDE)}
    facts = Facts.model_construct(**json.loads(rest[FACTS]))
    return bundle.with_tree(rest | {CRATE: writing.crate(rest, facts, "2026-01-01T00:00:00+00:00")})


def remeasured(fields, samples):
    """Give a record other samples, and derive everything from them."""
    taken = {"samples_seconds": list(samples), "processes": fields.get("processes", [])[: len(samples)]}
    for name in ("sm_clock_mhz", "power_watts", "temperature_celsius"):
        taken[name] = (fields[name] * len(samples))[: len(samples)] if fields[name] else []
    record = Record.model_validate(fields | taken)
    interval = derived.interval(record)
    low, high = ends(interval)
    rates = derived.speeds(record.model_copy(update={"median_seconds": interval.median}))
    return fields | taken | {"median_seconds": interval.median, "ci_low": low, "ci_high": high} | rates


def field(place=0, **values):
    """Change fields of one record and nothing else."""

    def change(files):
        records = records_of(files)
        records[place] = records[place] | values
        return with_records(files, records)

    return change


def each(edit):
    """Change every record."""

    def change(files):
        return with_records(files, list(map(edit, records_of(files))))

    return change


def samples(edit, place=0):
    """Change the samples of one record, and all that follows from them; ``edit`` is given all records too."""

    def change(files):
        records = records_of(files)
        records[place] = remeasured(records[place], edit(records[place]["samples_seconds"], records))
        return with_records(files, records)

    return change


def without(choose, **facts):
    """Remove the first record that ``choose`` accepts."""

    def change(files):
        records = records_of(files)
        records.remove(next(filter(choose, records)))
        return with_records(files, records, **facts)

    return change


def facts(edit):
    """Change what the bundle says of itself."""

    def change(files):
        stated = json.loads(files[FACTS])
        edit(stated)
        return files | {FACTS: json.dumps(stated).encode()}

    return change


def environment(edit):
    """Change what was noted at the start of the run."""

    def change(files):
        entries = json.loads(files[ENVIRONMENT])
        edit(entries[0])
        return files | {ENVIRONMENT: json.dumps(entries).encode()}

    return change


def text(name, old, new):
    """Replace words in a file."""

    def change(files):
        assert old.encode() in files[name]
        return files | {name: files[name].replace(old.encode(), new.encode())}

    return change


def another_source(files):
    """Change a line of the source, and name its new hash wherever the old one stands."""
    files = text(SOURCE, CUBE, SQUARE)(files)
    stated = Facts.model_validate_json(files[FACTS])
    changed = bundle.Bundle("", files, {}, [], [], stated)
    for code in stated.codes:
        if code.stems[0].joined == SOURCE:
            old, new = code.code_sha256.encode(), changed.sha256_of(code).encode()
            files |= {name: files[name].replace(old, new) for name in (RECORDS, FACTS)}
    return files


def renamed_constants(stated):
    stated["kernels"][0]["constants"]["UNROLL"] = 7


def later(moment, seconds):
    """Return a moment in the same form, so many seconds later."""
    return (datetime.datetime.fromisoformat(moment) + datetime.timedelta(seconds=seconds)).isoformat()


def during_another(files):
    """Have a record begin a second after the one that took longest."""
    records = records_of(files)
    longest = max(records, key=lambda fields: sum(fields["samples_seconds"]) * fields["batch"])
    other = next(fields for fields in records if fields is not longest)
    other["started"] = later(longest["started"], 1)
    return with_records(files, records)


def without_rates(fields):
    rates = dict.fromkeys(("interactions_per_second", "gflops"))
    return remeasured(fields, [sample / 1000 for sample in fields["samples_seconds"]]) | rates


def one_higher_clock(fields):
    clocks = fields["sm_clock_mhz"]
    return fields | {"sm_clock_mhz": [60 * clocks[0], *clocks[1:]] if clocks else []}


def shuffled_by_a_factor(_, records):
    taken = [1.37 * sample for sample in records[5]["samples_seconds"]]
    return taken[1::2] + taken[::2]


def half(fields):
    return remeasured(fields, [sample / 2 for sample in fields["samples_seconds"]])


def multiprocessors(fields):
    return fields | {"waves": fields["waves"] * 2}


def no_sweep_key(entry):
    keys = entry["sweep"]["dealt"].split()
    entry["sweep"]["dealt"] = " ".join(keys[1:])


def tolerance(stated):
    stated["codes"][0]["stems"][0]["tolerance"] = 100.0


FOUND = {
    "a changed sample without new hashes": Way(GPU, "hashes", field(median_seconds=1.0), sealed=False),
    "a changed root": Way(
        GPU, "hashes", lambda files: files | {TREE: files[TREE].replace(b'"root": "', b'"root": "0')}, False
    ),
    "an added file": Way(GPU, "hashes", lambda files: files | {"notes.txt": b"fast"}, sealed=False),
    "a removed file": Way(GPU, "hashes", lambda files: {n: c for n, c in files.items() if n != SOURCE}, sealed=False),
    "a description of other files": Way(
        GPU, "description", lambda files: bundle.with_tree(files | {"notes.txt": b"fast"}), sealed=False
    ),
    "a sample": Way(
        GPU, "arithmetic", each(lambda fields: fields | {"samples_seconds": [1.0, *fields["samples_seconds"][1:]]})
    ),
    "a median": Way(GPU, "arithmetic", field(median_seconds=0.0001)),
    "a narrower interval": Way(GPU, "arithmetic", field(ci_low=0.00001)),
    "a rate": Way(GPU, "arithmetic", field(interactions_per_second=1e13)),
    "GFLOP/s": Way(GPU, "arithmetic", field(gflops=1e5)),
    "FLOPs of an interaction": Way(GPU, "arithmetic", field(flops_per_interaction=38.0)),
    "a smaller largest error": Way(GPU, "arithmetic", field(error_max=1e-12)),
    "no error at all": Way(
        GPU,
        "arithmetic",
        field(
            **dict.fromkeys(
                (
                    "error_max",
                    "error_rms",
                    "error_median",
                    "error_p90",
                    "error_p99",
                    "error_magnitude_max",
                    "error_magnitude_rms",
                ),
                0.0,
            )
        ),
    ),
    "another n": Way(GPU, "arithmetic", field(n=131072)),
    "an unknown status": Way(GPU, "schema", field(status="great")),
    "a negative sample": Way(GPU, "schema", field(samples_seconds=[-1.0])),
    "a removed record with the count of records adjusted": Way(
        GPU, "schema", lambda files: files | {RECORDS: b"\n".join(files[RECORDS].splitlines()[1:])}
    ),
    "an unknown field of the bundle": Way(GPU, "schema", facts(lambda stated: stated.update(best=True))),
    "a removed failure": Way(FAILURES, "plan", without(lambda fields: fields["status"] == "invalid")),
    "a removed result": Way(CPU, "plan", without(lambda fields: fields["anchor"] == 0)),
    "a removed repetition of an anchor": Way(CPU, "plan", without(lambda fields: fields["anchor"] == 2)),
    "a case of another sweep": Way(CPU, "plan", each(lambda fields: fields | {"seed": 2})),
    "a case removed from the plan": Way(CPU, "plan", environment(no_sweep_key)),
    "another number of planned results": Way(CPU, "plan", environment(lambda entry: entry.update(planned=39))),
    "a swapped card name": Way(GPU, "devices", field(device="NVIDIA B200")),
    "another card called an H200": Way(GPU, "devices", each(lambda f: multiprocessors(f) if f["waves"] else f)),
    "records merged from two cards": Way(GPU, "devices", field(place=2, device_uuid="GPU-0000000000000000")),
    "another compute capability": Way(GPU, "devices", field(compute_capability="8.0")),
    "another driver": Way(GPU, "devices", field(driver="999.9")),
    "other bodies for the same problem": Way(GPU, "bodies", field(bodies_sha256="0" * 64)),
    "an error above the tolerance": Way(GPU, "tolerances", field(error_max=0.5, error_magnitude_max=0.5)),
    "a cycle of a kernel that computes all pairs": Way(
        GPU, "tolerances", field(cycle=2, error_max=0.5, error_magnitude_max=0.5, error_cycle_max=1e-9)
    ),
    "samples that are all equal": Way(GPU, "samples", samples(lambda taken, _: [taken[0]] * len(taken))),
    "samples of few digits": Way(
        GPU, "samples", samples(lambda taken, _: [round(x, 5 if x > 0.01 else 6) for x in taken])
    ),
    "copied samples": Way(CPU, "samples", samples(lambda _, records: records[5]["samples_seconds"])),
    "copied samples in another order": Way(
        CPU, "samples", samples(lambda _, records: records[5]["samples_seconds"][::-1])
    ),
    "copied samples by a factor": Way(
        CPU, "samples", samples(lambda _, records: [1.37 * x for x in records[5]["samples_seconds"]])
    ),
    "copied samples in another order and by a factor": Way(CPU, "samples", samples(shuffled_by_a_factor)),
    "a few copied samples": Way(
        CPU, "samples", samples(lambda taken, records: [*taken[:3], *records[5]["samples_seconds"][1:8]])
    ),
    "a removed reading": Way(GPU, "times", each(lambda fields: fields | {"power_watts": fields["power_watts"][1:]})),
    "a clock far above the others": Way(GPU, "times", each(one_higher_clock)),
    "times that are too short for their batch": Way(GPU, "times", samples(lambda taken, _: [x / 150 for x in taken])),
    "times without the energy": Way(ENERGY, "times", samples(lambda taken, _: [10 * x for x in taken])),
    "a case during another": Way(LONG, "times", during_another),
    "a start in the future": Way(GPU, "times", field(started="2999-01-01T00:00:00+00:00")),
    "a rate above the bound of any device": Way(
        GPU, "rates", each(lambda f: remeasured(f, [x / 20 for x in f["samples_seconds"]]))
    ),
    "a rate above that bound, left out": Way(GPU, "rates", each(without_rates)),
    "halved times": Way(GPU, "machine code", each(half)),
    "a changed line of the source": Way(GPU, "code", text(SOURCE, CUBE, SQUARE)),
    "a changed tolerance of the code": Way(GPU, "code", facts(tolerance)),
    "removed code": Way(GPU, "code", facts(lambda stated: stated["codes"].pop())),
    "code of no record": Way(GPU, "code", each(lambda fields: fields | {"code_sha256": "0" * 64})),
    "a hash of machine code": Way(
        GPU, "machine code", facts(lambda stated: stated["kernels"][0].update(cubin_sha256="0" * 64))
    ),
    "another source with its own hash": Way(GPU, "machine code", another_source),
    "constants that the case does not ask for": Way(GPU, "machine code", facts(renamed_constants)),
    "another architecture": Way(
        GPU, "machine code", facts(lambda stated: stated["kernels"][0].update(architecture="sm_80"))
    ),
    "a removed kernel": Way(GPU, "machine code", facts(lambda stated: stated["kernels"].clear())),
    "a kernel that belongs to no record": Way(
        GPU, "machine code", facts(lambda stated: stated["kernels"][0].update(line=99))
    ),
}


def slightly_faster(fields):
    return (
        remeasured(fields, [0.99 * sample for sample in fields["samples_seconds"]])
        if fields["status"] == "ok"
        else fields
    )


def renamed_card(files):
    """Call the card by another name, wherever it is called by its own."""
    return files | {name: files[name].replace(b"NVIDIA H200", b"NVIDIA H999") for name in (RECORDS, ENVIRONMENT)}


def admitted(files):
    """Remove a result, and say that it is lacking."""
    return without(lambda fields: fields["anchor"] == 0, lacking=1)(files)


HIDDEN = {
    "all times a little shorter": Way(GPU, "times", each(slightly_faster)),
    "a card that no table knows, renamed everywhere": Way(GPU, "devices", renamed_card),
    "a removed result that is declared missing": Way(CPU, "plan", admitted),
    "another processor in the environment": Way(
        CPU, "devices", environment(lambda entry: entry.update(processor="fast"))
    ),
}
"""Of each, the check that comes nearest to finding it."""
