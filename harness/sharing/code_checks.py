"""Checks of code: texts beside the hashes that records name, machine code beside texts, rates beside machine code."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence

from gravbench.errors import InputError
from gravbench.explain import assembling
from gravbench.explain.assembling import Compiled, disassembled
from gravbench.explain.bounds import bound
from gravbench.explain.ledger import Inner, inner_loops
from gravbench.explain.source_lines import places
from gravbench.model import interaction_files, sources
from gravbench.model.kernel_parts import UnmodelledError
from gravbench.model.record import Record
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import Variant, discover
from gravbench.sharing.bundle import Bundle, Code, KernelFact
from gravbench.sharing.kernels import NO_CUDA_C, Answer, Asked, Constants, Job, compiled, compiler, number_type
from gravbench.sharing.measured_checks import most_per_second
from gravbench.sharing.outcome import Outcome, at, counted, why_not
from gravbench.toolkits import nvrtc

MOST_KERNELS = 40
"""That are compiled unless all are asked for: chosen at random, so that nobody knows which."""
ROUNDING = 1.01
"""How far a rate may be above the bound at the highest clock that was read: readings are whole MHz, once a sample."""


def texts(bundle: Bundle) -> Outcome:
    """Compute the hash of each code from its texts, and say of which records the bundle has none."""
    codes = bundle.facts.codes if bundle.facts else []
    findings, same = [], 0
    named = {record.code_sha256 for record in bundle.records.values()}
    here = _hashes_here(bundle.records.values())
    for code in codes:
        try:
            sha256 = bundle.sha256_of(code)
        except (KeyError, SyntaxError, RecursionError, ValueError) as error:
            findings.append(f"code {code.code_sha256[:8]}: its texts cannot be read: {error}")
            continue
        if sha256 != code.code_sha256:
            folder = code.stems[0].python.rpartition("/")[0]
            findings.append(f"{folder}: its texts have the hash {sha256[:8]}, not {code.code_sha256[:8]}")
        if code.code_sha256 not in named:
            findings.append(f"code {code.code_sha256[:8]}: no record names it")
        same += code.code_sha256 in here
    there = {code.code_sha256 for code in codes}
    reasons = [
        "the code that ran is not in the bundle"
        for record in bundle.records.values()
        if record.status == "ok" and record.code_sha256 not in there
    ]
    if bundle.facts and bundle.facts.without_code != len(reasons):
        findings.append(
            f"{counted(len(reasons), 'record')} without code, but the bundle says {bundle.facts.without_code:,}"
        )
    return Outcome(findings, why_not(reasons, "record"), f"{counted(len(codes), 'code')}, {same:,} the same as here")


def _hashes_here(records: Iterable[Record]) -> set[str]:
    """Return the hashes of what this checkout runs for the cases of records."""
    variants, hashes = discover(), set()
    kinds = {(record.variant, record.toolkit, record.interaction, record.timed): record for record in records}
    for record in kinds.values():
        variant = variants.get(record.variant)
        if variant and record.toolkit in variant.toolkits and record.interaction in interaction_files.packaged():
            hashes.add(sources.code_sha256(record, variant))
    return hashes


def machine_code(bundle: Bundle, *, all_kernels: bool = False) -> Outcome:
    """Compile kernels again, compare the machine code, and compare rates with what its loops bound."""
    every = bundle.facts.kernels if bundle.facts else []
    sources_here = _trusted(bundle)
    asking = Asked(discover())
    findings, unchecked = _not_listed(bundle, sources_here, asking), _reasons(bundle)
    if not every:
        return Outcome(findings, unchecked)
    if not nvrtc.is_usable():
        return Outcome(findings, [*unchecked, f"{counted(len(every), 'kernel')}: {assembling.NO_NVRTC}"])
    chosen = every if all_kernels or len(every) <= MOST_KERNELS else random.SystemRandom().sample(every, MOST_KERNELS)
    if len(chosen) < len(every):
        unchecked.append(
            f"{counted(len(every) - len(chosen), 'kernel')}: not among those chosen; --all-kernels compiles all"
        )
    findings += [f"{fact.source}: is not in the bundle" for fact in chosen if fact.source not in bundle.files]
    bounds, reasons = Bounds(asking.variants), []
    for trusted in (True, False):
        facts = [
            fact for fact in chosen if fact.source in bundle.files and (fact.source in sources_here.values()) == trusted
        ]
        for fact, answer in zip(facts, compiled([_job(bundle, fact) for fact in facts], trusted=trusted), strict=True):
            wrong, undecided = _compared(bundle, fact, answer, asking, trusted=trusted)
            findings += wrong
            reasons += undecided
            if trusted and answer.cubin and not wrong:
                reasons += bounds.add(bundle, fact, answer)
    too_fast, looked = _too_fast(bundle, bounds, asking, sources_here)
    scope = f"{counted(len(chosen), 'kernel')} of {len(every):,} by {compiler()}; {counted(looked, 'rate')}"
    return Outcome(findings + too_fast, unchecked + why_not(reasons, "kernel"), scope)


def _trusted(bundle: Bundle) -> dict[str, str]:
    """Return the file of CUDA C of each code that is this checkout's, by the hash of the code."""
    here = _hashes_here(bundle.records.values())
    codes = bundle.facts.codes if bundle.facts else []
    return {
        code.code_sha256: code.stems[0].joined
        for code in codes
        if code.code_sha256 in here and code.stems[0].joined and _is_whole(bundle, code)
    }


def _not_listed(bundle: Bundle, sources_here: Mapping[str, str], asking: Asked) -> list[str]:
    """Say which cases of this checkout's CUDA C ask for a kernel that the bundle does not list, without a reason."""
    if bundle.facts is None or bundle.facts.not_compiled.keys() - {NO_CUDA_C}:
        return []
    listed = {_key_of(bundle, fact) for fact in bundle.facts.kernels}
    findings = []
    for number, record in bundle.records.items():
        source = sources_here.get(record.code_sha256 or "")
        if source is None or record.status != "ok" or not catalogue()[record.toolkit].cuda_c:
            continue
        try:
            asked = asking.by(record)
        except UnmodelledError:
            continue
        text = bundle.text(source) or ""
        if not listed.issuperset(_key(text, kernel, constants, number_type(record)) for kernel, constants in asked):
            findings.append(f"{at(number, record)}: asks for a kernel that the bundle does not list")
    return findings


def _reasons(bundle: Bundle) -> list[str]:
    facts = bundle.facts
    return [f"{counted(count, 'case')}: {reason}" for reason, count in (facts.not_compiled if facts else {}).items()]


def _is_whole(bundle: Bundle, code: Code) -> bool:
    """Tell whether texts have the hash that they are said to have."""
    try:
        return bundle.sha256_of(code) == code.code_sha256
    except (KeyError, SyntaxError, RecursionError, ValueError):
        return False


def _job(bundle: Bundle, fact: KernelFact) -> Job:
    text = _text(bundle, fact)
    return Job(text, tuple(fact.constants.items()), fact.dtype, fact.architecture)


def _compared(
    bundle: Bundle, fact: KernelFact, answer: Answer, asking: Asked, *, trusted: bool
) -> tuple[list[str], list[str]]:
    """Return what is wrong with a kernel, and why it could not be decided."""
    name = f"{fact.source}: {fact.kernel} for {fact.architecture}"
    record = bundle.records.get(fact.line)
    if record is None or record.status != "ok":
        return [f"{name}: line {fact.line} is no result that could ask for it"], []
    if f"sm_{(record.compute_capability or '').replace('.', '')}" != fact.architecture:
        return [f"{name}: line {fact.line} was measured on compute capability {record.compute_capability}"], []
    if trusted:
        try:
            asked = asking.by(record)
        except (UnmodelledError, KeyError) as error:
            return [], [f"what its case asks for is not known here: {error}"]
        if (fact.kernel, tuple(fact.constants.items())) not in asked:
            return [f"{name}: {at(fact.line, record)} asks for no such kernel with these constants"], []
    if fact.compiler != compiler():
        return [], [f"compiled by {fact.compiler}, but {compiler()} is installed; pip can install the other"]
    if answer.refusal:
        return ([f"{name}: {answer.refusal}"], []) if trusted else ([], [f"of another source: {answer.refusal}"])
    if answer.sha256 != fact.cubin_sha256:
        return [f"{name}: compiles to {answer.sha256[:8]}, but the bundle says {fact.cubin_sha256[:8]}"], []
    return [], []


class Bounds:
    """The most interactions that a multiprocessor can begin in a clock, kernel by kernel of this checkout's source."""

    def __init__(self, variants: Mapping[str, Variant]) -> None:
        """Know the variants; nothing has been disassembled yet."""
        self._variants = variants
        self._known: dict[tuple[object, ...], float] = {}

    def add(self, bundle: Bundle, fact: KernelFact, answer: Answer) -> list[str]:
        """Disassemble a kernel and keep its bound, 0 where it has no loop over interactions; say why there is none."""
        # Of a pair that is used for both bodies, or may be, two interactions count: no bound is too low.
        mutual = bool(self._variants[bundle.records[fact.line].variant].mutual)
        made = Compiled(fact.architecture, bytes.fromhex(answer.cubin), "")
        text = bundle.text(fact.source) or ""
        try:
            loops = inner_loops(disassembled(made, fact.kernel), places(text), mutual)
        except InputError as error:
            return [f"no bound: {error}"]
        most = max((_a_clock(inner, fact.architecture) for inner in loops), default=0.0)
        self._known[_key_of(bundle, fact)] = most
        return []

    def of(self, record: Record, text: str, asked: Sequence[tuple[str, Constants]]) -> float | None:
        """Return the bound of a case that asks for these kernels; None where one of them or all loops are not known."""
        keys = [_key(text, kernel, constants, number_type(record)) for kernel, constants in asked]
        known = [self._known.get(key) for key in keys]
        if None in known:
            return None
        return max((value for value in known if value is not None), default=0.0) or None


def _key(text: str, kernel: str, constants: Iterable[tuple[str, int]], dtype: str) -> tuple[object, ...]:
    return text, kernel, frozenset(constants), dtype


def _text(bundle: Bundle, fact: KernelFact) -> str:
    return bundle.files.get(fact.source, b"").decode(errors="replace")


def _key_of(bundle: Bundle, fact: KernelFact) -> tuple[object, ...]:
    return _key(_text(bundle, fact), fact.kernel, fact.constants.items(), fact.dtype)


def _a_clock(inner: Inner, architecture: str) -> float:
    return bound(inner, architecture, 1, 1.0).interactions_per_second / 1e6


def _too_fast(bundle: Bundle, bounds: Bounds, asking: Asked, sources_here: Mapping[str, str]) -> tuple[list[str], int]:
    """Say which records are faster than their kernels allow, and how many were looked at."""
    findings, looked = [], 0
    for number, record in bundle.records.items():
        source = sources_here.get(record.code_sha256 or "")
        if source is None or record.interactions_per_second is None:
            continue
        try:
            a_clock = bounds.of(record, bundle.text(source) or "", asking.by(record))
        except UnmodelledError:
            continue
        most = None if a_clock is None else most_per_second(record, a_clock)
        if a_clock is None or most is None:
            continue
        looked += 1
        if record.interactions_per_second > ROUNDING * most:
            findings.append(
                f"{at(number, record)}: {record.interactions_per_second:.3g} interactions/s, but its kernel's issue "
                f"bound is {most:.3g}: {a_clock:.3g} per clock of each multiprocessor, at the highest clock it read"
            )
    return findings, looked
