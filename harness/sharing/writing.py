"""Make a bundle of a run: its records and environment without names, the code that ran, and its kernels compiled."""

from __future__ import annotations

import datetime
import io
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from gravbench.errors import InputError
from gravbench.explain.model import architecture_of
from gravbench.model import runs, sources
from gravbench.model.identity import CodeParts
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.merged import Source, Start
from gravbench.model.quantities import QUANTITIES
from gravbench.model.record import Record
from gravbench.model.regular import read_bytes
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.stem_code import CUDA_C
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import Variant
from gravbench.sharing import redaction
from gravbench.sharing.bundle import CRATE, FACTS, FORMAT, TREE, Code, Facts, KernelFact, StemTexts
from gravbench.sharing.kernels import NO_CUDA_C, Answer, Asked, Job, compiled, compiler, number_type
from gravbench.sharing.run_checks import lacking
from gravbench.toolkits import nvrtc
from gravbench.version import VERSION

NO_ROCRATE = "sharing needs rocrate; install it with: pip install 'gravbench[share]'"
ENDINGS = {"python": "launch.py.txt", "generated": "interaction.py.txt", "native": "native.txt"}
NO_NVRTC = "NVRTC is not installed"


def files_of(folder: Path, variants: Mapping[str, Variant], say: Callable[[str], object]) -> dict[str, bytes]:
    """Return the files of a bundle by their names, the tree of hashes not yet among them.

    ``variants`` are those of this checkout and of one's own; ``say`` is told which lines are no records.

    Raises:
        InputError: the run or its environment cannot be read, or the library rocrate is missing.
    """
    read = RecordFile(folder).read_lines(say)
    raw = read_bytes(folder / RECORDS)
    entries = runs.starts(folder)
    if not entries:
        raise InputError(f"{folder / ENVIRONMENT}: is missing or empty; accepted: a run of `gravbench run`")
    rules = redaction.Redaction(redaction.salt_of(raw, json.dumps(entries).encode()))
    # First, because it names the hosts.
    shared_entries = [rules.start(entry) for entry in entries]
    lines = raw.split(b"\n")
    kept = [redaction.line(rules.record(json.loads(lines[number - 1]))) for number in read]
    records = {number: Record.of_line(line) for number, line in enumerate(kept, 1)}
    files = {RECORDS: b"".join(kept), ENVIRONMENT: json.dumps(shared_entries, indent=1).encode() + b"\n"}
    # The rules may have taken the folder from a file of one's own, by which its code is found.
    ran = dict(zip(records, read.values(), strict=True))
    codes, texts, trusted = _codes(ran, variants)
    kernels, not_compiled = _kernels(ran, variants, trusted)
    facts = Facts(
        format=FORMAT,
        run=rules.prose(folder.resolve().name),
        harness_version=VERSION,
        records=dict(Counter(record.status for record in records.values())),
        lacking=lacking(_run(folder, records, shared_entries)),
        codes=codes,
        kernels=kernels,
        without_code=sum(record.status == "ok" and number not in trusted for number, record in records.items()),
        not_compiled=not_compiled,
    )
    files |= texts | {FACTS: facts.model_dump_json(indent=1).encode() + b"\n"}
    return files | {CRATE: crate(files, facts, max(record.started for record in records.values()))}


def _run(folder: Path, records: Mapping[int, Record], entries: list[dict[str, Any]]) -> Source:
    """Return a run as ``merge`` reads one.

    Raises:
        InputError: the environment is not what ``gravbench run`` writes.
    """
    try:
        starts = [Start.model_validate(entry) for entry in entries]
    except ValidationError as error:
        raise InputError(f"{folder / ENVIRONMENT}: {error.errors()[0]['msg']}") from None
    return Source(folder, records, entries, starts, frozenset())


def _codes(
    records: Mapping[int, Record], variants: Mapping[str, Variant]
) -> tuple[list[Code], dict[str, bytes], dict[int, str]]:
    """Return the code of all records that this machine has, its texts by their files, and the folder of each record.

    A record whose code here is another than the one that ran has none.
    """
    folders: dict[str, str] = {}
    codes: list[Code] = []
    texts: dict[str, bytes] = {}
    of_records: dict[int, str] = {}
    for number, record in records.items():
        if record.code_sha256 is None:
            continue
        if record.code_sha256 not in folders:
            parts = _parts(record, variants)
            if parts is None:
                continue
            folder = _folder(record, folders.values())
            folders[record.code_sha256] = folder
            named = [_named(folder, record, place, stem) for place, stem in enumerate(parts)]
            texts |= {name: text.encode() for names in named for name, text in names[1].items()}
            codes.append(Code(code_sha256=record.code_sha256, stems=[stem for stem, _ in named]))
        of_records[number] = folders[record.code_sha256]
    return codes, texts, of_records


def _parts(record: Record, variants: Mapping[str, Variant]) -> list[CodeParts] | None:
    variant = variants.get(record.variant)
    if variant is None or record.toolkit not in catalogue():
        return None
    try:
        parts = sources.code_parts(record, variant)
    except InputError:
        return None
    same = sources.joined_code_sha256([stem.sha256 for stem in parts]) == record.code_sha256
    return parts if same else None


def _folder(record: Record, taken: Any) -> str:
    name = f"code/{record.variant}-{record.toolkit}-{Path(record.interaction).stem}"
    name += "-step" if QUANTITIES[record.timed].steps else ""
    return name if name not in taken else f"{name}-{str(record.code_sha256)[:8]}"


def _named(folder: str, record: Record, place: int, stem: CodeParts) -> tuple[StemTexts, dict[str, str]]:
    """Name the files of a stem's texts."""
    front = f"{folder}/integrator." if place else f"{folder}/"
    joined = f"kernel{CUDA_C if catalogue()[record.toolkit].cuda_c else catalogue()[record.toolkit].suffix}"
    names = {**ENDINGS, "joined": joined}
    texts = {part: text for part in names if (text := getattr(stem, part)) is not None}
    files = {part: front + names[part] for part in texts}
    return StemTexts(**files, tolerance=stem.tolerance), {files[part]: text for part, text in texts.items()}


def _kernels(
    records: Mapping[int, Record], variants: Mapping[str, Variant], folders: Mapping[int, str]
) -> tuple[list[KernelFact], dict[str, int]]:
    """Compile each distinct kernel of the records whose code is here; say of how many cases none was, and why."""
    not_compiled: Counter[str] = Counter()
    jobs: dict[Job, tuple[int, str, str]] = {}
    asking = Asked(variants)
    for number, folder in folders.items():
        record = records[number]
        if record.status != "ok":
            continue
        if not catalogue()[record.toolkit].cuda_c or not variants[record.variant].has_cuda_c:
            not_compiled[NO_CUDA_C] += 1
            continue
        try:
            architecture, kernels = architecture_of(record), asking.by(record)
        except UnmodelledError as error:
            not_compiled[str(error)] += 1
            continue
        (text, *_) = sources.code_parts(record, variants[record.variant])
        for kernel, constants in kernels:
            job = Job(text.joined or "", constants, number_type(record), architecture)
            jobs.setdefault(job, (number, f"{folder}/kernel{CUDA_C}", kernel))
    if jobs and not nvrtc.is_usable():
        return [], dict(not_compiled | Counter({NO_NVRTC: len(jobs)}))
    facts = []
    for job, answer in zip(jobs, compiled(list(jobs), trusted=True), strict=True):
        if answer.refusal:
            not_compiled[answer.refusal] += 1
        else:
            facts.append(_fact(job, answer, *jobs[job]))
    return facts, dict(not_compiled)


def _fact(job: Job, answer: Answer, line: int, source: str, kernel: str) -> KernelFact:
    return KernelFact(
        line=line,
        source=source,
        kernel=kernel,
        constants=dict(job.constants),
        dtype=job.dtype,
        architecture=job.architecture,
        compiler=compiler(),
        cubin_sha256=answer.sha256,
    )


def crate(files: Mapping[str, bytes], facts: Facts, moment: str) -> bytes:
    """Describe files as an RO-Crate, published when the newest record began.

    Raises:
        InputError: the library rocrate is missing.
    """
    try:
        from rocrate.rocrate import ROCrate
    except ImportError:
        raise InputError(NO_ROCRATE) from None
    described = ROCrate()
    described.name = f"gravbench run {facts.run}"
    described.description = (
        f"{sum(facts.records.values()):,} records of gravity between N bodies, measured by gravbench; "
        f"`gravbench verify FILE` checks them without a GPU. {TREE} has the hash of every file."
    )
    described.datePublished = datetime.datetime.fromisoformat(moment)
    for name in sorted(files):
        described.add_file(
            io.BytesIO(files[name]),
            dest_path=name,
            properties={"contentSize": str(len(files[name])), "encodingFormat": _format(name)},
        )
    return json.dumps(described.metadata.generate(), indent=1, sort_keys=True).encode() + b"\n"


def _format(name: str) -> str:
    return {".json": "application/json", ".jsonl": "application/jsonl"}.get(Path(name).suffix, "text/plain")


def summary(files: Mapping[str, bytes]) -> list[str]:
    """Say in lines what will be shared: each file with its size, then every text about the machine and its software."""
    lines = [f"{len(content):>12,} bytes  {name}" for name, content in sorted(files.items())]
    records = [json.loads(line) for line in files[RECORDS].splitlines()]
    texts: dict[str, Counter[str]] = {}
    for fields in records:
        for name in (*redaction.RULED, "device", "driver", "commit"):
            for text in _texts(fields.get(name)):
                texts.setdefault(name, Counter())[text] += 1
    of_records = [f"{name}: {_listed(counted)}" for name, counted in sorted(texts.items())]
    starts = [{"run": json.loads(files[FACTS])["run"]}, *json.loads(files[ENVIRONMENT])]
    of_starts = [f"{name}: {json.dumps(value)}" for entry in starts for name, value in entry.items() if name != "sweep"]
    return [*lines, "", "In records:", *of_records, "", "Of the machine:", *of_starts]


def _texts(value: Any) -> Sequence[str]:
    if isinstance(value, str):
        return [value]
    return [" ".join(map(str, value))] if isinstance(value, list) and value else []


def _listed(counted: Counter[str]) -> str:
    return "; ".join(f"{text} ({times:,})" for text, times in counted.most_common())
