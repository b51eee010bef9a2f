"""Checks of code: texts beside the hashes that records name, machine code beside texts, rates beside machine code."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator

from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.explain.assembling import Compiled, disassembled
from gravbench.explain.bounds import bound
from gravbench.explain.ledger import inner_loops, is_unrolled_whole
from gravbench.explain.source_lines import places
from gravbench.model import interaction_files
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.report.provenance import Here, Origin
from gravbench.sharing.bundle import Bundle, Code, KernelFact
from gravbench.sharing.kernels import NO_CUDA_C, Answer, Asked, Constants, Job, compiled, compiler, number_type
from gravbench.sharing.measured_checks import most_per_second, rate_of
from gravbench.sharing.outcome import Outcome, at, counted, why_not
from gravbench.toolkits import nvrtc

MOST_KERNELS = 40
"""That are compiled unless all are asked for: chosen at random, so that nobody knows which."""
ABOVE_BOUND = 1.01
"""How far a rate may be above the bound at the highest clock that was read: readings are whole MHz, once a sample."""
UNREADABLE = (KeyError, SyntaxError, RecursionError, MemoryError, ValueError)
"""What a text raises that is not there, or is no Python."""


def texts(bundle: Bundle) -> Outcome:
    """Compute the hash of each code from its texts, and say of how many records the bundle has none."""
    findings = []
    named = {record.code_sha256 for record in bundle.records.values()}
    for code in bundle.codes:
        what = code.stems[0].python.rpartition("/")[0]
        try:
            sha256 = bundle.sha256_of(code)
        except UNREADABLE as error:
            findings.append(f"{what}: its texts cannot be read: {error!r}")
            continue
        if sha256 != code.code_sha256:
            findings.append(f"{what}: its texts have the hash {sha256[:8]}, not {code.code_sha256[:8]}")
        if code.code_sha256 not in named:
            findings.append(f"{what}: no record names its hash")
    there = {code.code_sha256 for code in bundle.codes}
    without = sum(record.status == "ok" and record.code_sha256 not in there for record in bundle.records.values())
    if bundle.facts and bundle.facts.without_code != without:
        findings.append(f"{counted(without, 'record')} without code, but the bundle says {bundle.facts.without_code:,}")
    unchecked = why_not(["the code that ran is not in the bundle"] * without, "record")
    here = Here(discover())
    same = {record.code_sha256 for record in bundle.records.values() if here.origin(record) is Origin.SAME} & there
    return Outcome(
        findings, unchecked, f"{counted(len(bundle.codes), 'text')} of code, {len(same):,} as in this checkout"
    )


Listed = tuple[str, frozenset[tuple[str, int]], str, str]
"""A kernel, its constants, its number type and its source."""


class Ours:
    """What of a bundle this checkout has by the same hash: its own texts are compiled, and its variants asked."""

    def __init__(self, bundle: Bundle) -> None:
        """Know the codes of a bundle whose texts have their hash."""
        self._asking = Asked(discover())
        self._here = Here(self._asking.variants)
        self._files = {code.code_sha256: code.stems[0].joined for code in bundle.codes if _is_whole(bundle, code)}

    def source(self, record: Record) -> str | None:
        """Return the file of the bundle with the CUDA C of a result; None where it is not this checkout's."""
        same = record.status == "ok" and self._here.origin(record) is Origin.SAME
        return self._files.get(record.code_sha256 or "") if same and catalogue()[record.toolkit].cuda_c else None

    def mutual(self, record: Record) -> bool:
        """Tell whether a pair may be used for both bodies: then two interactions count, and no bound is too low."""
        return bool(self._asking.variants[record.variant].mutual)

    def text(self, record: Record) -> str:
        """Return the CUDA C of this checkout for a result that has it."""
        return self._asking.variants[record.variant].cuda_source(interaction_files.find(record.interaction))

    def kernels(self, record: Record) -> list[tuple[str, Constants]]:
        """Return the kernels that the case of such a result asks for.

        Raises:
            UnmodelledError: it cannot be prepared without a GPU, or an axis has a value that is not accepted here.
        """
        variant = self._asking.variants[record.variant]
        for name, value in record.axes.items():
            if name not in variant.axes or variant.find_value(name, value) is None:
                raise UnmodelledError(f"{record.variant} accepts no such {name} here")
        return self._asking.by(record)

    def results(self, bundle: Bundle) -> Iterator[tuple[int, Record, set[Listed]]]:
        """Yield the results with this checkout's CUDA C, by their lines, with the kernels that their cases ask for."""
        for number, record in bundle.records.items():
            source = self.source(record)
            if source is None:
                continue
            try:
                kernels = self.kernels(record)
            except UnmodelledError:
                continue
            dtype = number_type(record)
            yield number, record, {(kernel, frozenset(constants), dtype, source) for kernel, constants in kernels}


def _is_whole(bundle: Bundle, code: Code) -> bool:
    """Tell whether texts have the hash that they are said to have."""
    try:
        return bundle.sha256_of(code) == code.code_sha256
    except UNREADABLE:
        return False


def machine_code(bundle: Bundle, *, all_kernels: bool = False) -> Outcome:
    """Compile kernels again, compare the machine code, and compare rates with what its loops bound."""
    every = bundle.kernels
    reasons = bundle.facts.not_compiled if bundle.facts else {}
    ours = Ours(bundle)
    findings = _not_listed(bundle, ours) if reasons.keys() <= {NO_CUDA_C} else []
    unchecked = [f"{counted(count, 'case')}: {reason}" for reason, count in reasons.items()]
    if not every:
        return Outcome(findings, unchecked)
    if not nvrtc.is_usable():
        return Outcome(findings, [*unchecked, f"{counted(len(every), 'kernel')}: {assembling.NO_NVRTC}"])
    chosen = every if all_kernels or len(every) <= MOST_KERNELS else random.SystemRandom().sample(every, MOST_KERNELS)
    if left := len(every) - len(chosen):
        unchecked.append(f"{counted(left, 'kernel')}: not among those chosen; --all-kernels compiles all")
    bounds = Bounds()
    same: set[Listed] = set()
    why: list[str] = []
    for trusted in (True, False):
        jobs: list[tuple[KernelFact, Job]] = []
        for fact in chosen:
            job = _job(bundle, fact, ours, trusted=trusted)
            if isinstance(job, Job):
                jobs.append((fact, job))
            elif job is not None:
                findings += job.findings
                why += job.unchecked
        answers = compiled([job for _, job in jobs], trusted=trusted)
        for (fact, job), answer in zip(jobs, answers, strict=True):
            compared = _compared(fact, answer, trusted=trusted)
            findings += compared.findings
            why += compared.unchecked
            if trusted and not (compared.findings or compared.unchecked):
                same.add(_listed(fact))
            if trusted and answer.cubin:
                why += bounds.add(job, fact.kernel, answer, mutual=ours.mutual(bundle.records[fact.line]))
    too_fast, looked = _too_fast(bundle, bounds, ours)
    scope = f"{counted(len(chosen), 'kernel')} of {len(every):,} by {compiler()}; {counted(looked, 'rate')}"
    return Outcome(findings + too_fast, unchecked + why_not(why, "kernel"), scope, _recompiled(bundle, ours, same))


def _listed(fact: KernelFact) -> Listed:
    return fact.kernel, frozenset(fact.constants.items()), fact.dtype, fact.source


def _recompiled(bundle: Bundle, ours: Ours, same: set[Listed]) -> frozenset[int]:
    """Return the lines of the results all kernels of which are among the ``same`` as stated."""
    return frozenset(number for number, _, kernels in ours.results(bundle) if kernels and kernels <= same)


def _not_listed(bundle: Bundle, ours: Ours) -> list[str]:
    """Say which results with this checkout's CUDA C ask for a kernel that the bundle does not list."""
    # The same text may be listed as the source of another case.
    listed = {_listed(fact)[:-1] for fact in bundle.kernels}
    return [
        f"{at(number, record)}: asks for a kernel that the bundle does not list"
        for number, record, kernels in ours.results(bundle)
        if not {kernel[:-1] for kernel in kernels} <= listed
    ]


def _job(bundle: Bundle, fact: KernelFact, ours: Ours, *, trusted: bool) -> Job | Outcome | None:
    """Return what to compile for a kernel, or what is wrong with it; None where it is not of the kind that is done.

    Of this checkout's code its own text is compiled, which has the same hash, and only with constants that its variant
    asks for: comments of the other text, and what it has for other constants, are no part of the hash.
    """
    record = bundle.records.get(fact.line)
    is_ours = record is not None and ours.source(record) == fact.source
    if is_ours != trusted:
        return None
    if record is None or record.status != "ok":
        return Outcome([f"{fact.label}: line {fact.line} is no result that could ask for it"])
    if f"sm_{(record.compute_capability or '').replace('.', '')}" != fact.architecture:
        return Outcome([f"{fact.label}: line {fact.line} has compute capability {record.compute_capability}"])
    if fact.source not in bundle.files:
        return Outcome([f"{fact.label}: its source is not in the bundle"])
    constants = tuple(fact.constants.items())
    if not is_ours:
        return Job(bundle.text(fact.source) or "", constants, fact.dtype, fact.architecture)
    try:
        kernels = ours.kernels(record)
    except UnmodelledError as error:
        return Outcome(unchecked=[f"what its case asks for is not known here: {error}"])
    if (fact.kernel, constants) not in kernels or fact.dtype != number_type(record):
        return Outcome([f"{fact.label}: {at(fact.line, record)} asks for no such kernel with these constants"])
    return Job(ours.text(record), constants, fact.dtype, fact.architecture)


def _compared(fact: KernelFact, answer: Answer, *, trusted: bool) -> Outcome:
    """Compare machine code with its hash, where it was made by the compiler that the bundle states."""
    if fact.compiler != compiler():
        return Outcome(unchecked=[f"compiled by {fact.compiler}, but {compiler()} is installed; pip has the other"])
    if answer.refusal:
        return (
            Outcome([f"{fact.label}: {answer.refusal}"])
            if trusted
            else Outcome(unchecked=[f"of another source: {answer.refusal}"])
        )
    if answer.sha256 != fact.cubin_sha256:
        return Outcome([f"{fact.label}: compiles to {answer.sha256[:8]}, but the bundle says {fact.cubin_sha256[:8]}"])
    return Outcome()


class Bounds:
    """The most interactions that a multiprocessor can begin in a clock, kernel by kernel of this checkout's code."""

    def __init__(self) -> None:
        """Nothing has been disassembled yet."""
        self._known: dict[tuple[object, ...], float] = {}

    def add(self, job: Job, kernel: str, answer: Answer, *, mutual: bool) -> list[str]:
        """Disassemble a kernel and keep its bound, 0 where it has no loop over interactions; say why there is none."""
        try:
            made = disassembled(Compiled(job.architecture, bytes.fromhex(answer.cubin), ""), kernel)
        except InputError as error:
            return [f"no bound: {error}"]
        if is_unrolled_whole(made):
            return ["no bound: its loop over a tile is unrolled whole, so no loop has its interactions alone"]
        loops = inner_loops(made, places(job.source), mutual)
        a_clock = [bound(loop, job.architecture, 1, 1.0).interactions_per_second / 1e6 for loop in loops]
        self._known[job.source, kernel, frozenset(job.constants), job.dtype] = max(a_clock, default=0.0)
        return []

    def of(self, text: str, kernels: Iterable[Listed]) -> float | None:
        """Return the bound of a case that asks for these kernels; None where one of them or all loops are not known."""
        known = [self._known.get((text, kernel, constants, dtype)) for kernel, constants, dtype, _ in kernels]
        return None if None in known else max((value for value in known if value), default=None)


def _too_fast(bundle: Bundle, bounds: Bounds, ours: Ours) -> tuple[list[str], int]:
    """Say which records are faster than their kernels allow, and how many were looked at."""
    findings, looked = [], 0
    for number, record, kernels in ours.results(bundle):
        speed = rate_of(record)
        if speed is None:
            continue
        a_clock = bounds.of(ours.text(record), kernels)
        most = None if a_clock is None else most_per_second(record, a_clock)
        looked += most is not None
        if most is not None and speed > ABOVE_BOUND * most:
            findings.append(
                f"{at(number, record)}: {speed:.3g} interactions/s, but its kernel's issue "
                f"bound is {most:.3g}: {a_clock:.3g} per clock of each multiprocessor, at the highest clock it read"
            )
    return findings, looked
