"""What the checkout at hand says of records: whether it has their source and method, and what they prepare untimed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum

from gravbench.errors import InputError
from gravbench.model import interaction_files, sources
from gravbench.model.device import SOFTWARE, is_software
from gravbench.model.method import METHOD, method_words
from gravbench.model.quantities import QUANTITIES
from gravbench.model.record import Record
from gravbench.model.variant import Variant
from gravbench.report.names import joined
from gravbench.report.numbers import milliseconds, number
from gravbench.verdicts.question import EQUAL_MASS
from gravbench.verdicts.ranking import TOLD, is_partial, seconds, with_axes

NOT_RECORDED = "not recorded"
SEPARATION = "separation"
"""The axis with the distance, in radii of a block, from which on tensor cores compute, with numbers in FP16."""
PARTIAL = "<"
"""The sign of a row whose interactions per second are those of an approximation."""
PARTIAL_NOTE = (
    f"{PARTIAL} an approximation: interactions/s and GFLOP/s count only the interactions it computes, not all n * n"
)

UNCOUNTED = "‡"
"""The sign of a row that has a time and no interactions per second."""
UNCOUNTED_NOTE = (
    f"{UNCOUNTED} an approximation that does not count its interactions, so it has a time but no interactions/s"
)

CUT_SHORT = "¬"
"""The sign of a row whose record was outraced."""
CUT_SHORT_NOTE = (
    f"{CUT_SHORT} outraced: sampling stopped once it was clear that another case is faster; to measure how far it is "
    "behind: gravbench run SWEEP --search all --resume --out FOLDER"
)


def milliseconds_of(record: Record) -> str:
    """Write the time of an evaluation, with the sign of one that was outraced."""
    return milliseconds(seconds(record)) + f" {CUT_SHORT}" * record.outraced


def cut_short_notes(records: Iterable[Record]) -> list[str]:
    """Say below a table what that sign means, where a record has it."""
    return [CUT_SHORT_NOTE] * any(record.outraced for record in records)


THROTTLED = "!"
NARROW = "*"
"""The sign of an uncertainty that does not include what processes differ by in such work."""
NARROW_NOTE = (
    f"{NARROW} ± may be too small: the run repeated no anchor of this kind of work (the GPU, the host, or both) on the "
    "device in fresh processes; ± includes the widest scatter of its other anchors, if any"
)
NARROW_BRIEF = f"{NARROW} ± may be too small: the run repeated no anchor of this kind of work in fresh processes"


def signs(record: Record) -> str:
    """Return the signs of what the speed of a row is not: at the full clock, measured in full, of all n * n."""
    cut = THROTTLED * bool(record.throttled) + CUT_SHORT * record.outraced
    return cut + (UNCOUNTED if record.uncounted else PARTIAL * is_partial(record))


def sign_notes(records: Iterable[Record]) -> list[str]:
    """Say below a table what these signs mean."""
    signed = list(records)
    reasons = joined(reason for record in signed if record.throttled for reason in record.throttle_reasons)
    why = f" ({reasons})" if reasons else ""
    throttled = f"{THROTTLED} throttled: the device lowered its clock during the measurement{why}"
    there = "".join(map(signs, signed))
    return [note for note in (throttled, CUT_SHORT_NOTE, PARTIAL_NOTE, UNCOUNTED_NOTE) if note[0] in there]


OTHER_METHOD = "°"
"""The sign of a row that was timed and judged by another method than this checkout's."""


class Origin(StrEnum):
    """What the source of a record is to the source here; the value is the sign at its row."""

    SAME = ""
    OTHER = "§"
    GONE = "¶"

    @property
    def words(self) -> str:
        """Name it where there is room for words."""
        return _WORDS[self]


_WORDS = {Origin.SAME: "as here", Origin.OTHER: "another", Origin.GONE: "no such variant here"}


class Here:
    """Sets records beside the variants that there are here, each source hashed once; without any, beside nothing."""

    def __init__(self, variants: Mapping[str, Variant] | None = None, records: Iterable[Record] = ()) -> None:
        """Keep ``variants``, which are all that there are here, by their names.

        ``records`` are those of the report. Rows of another method are marked only if the report also has records of
        this checkout's method; otherwise a note says it of all of them.
        """
        self._variants = variants
        self._mixed = any(record.method == METHOD for record in records)
        self._hashes: dict[tuple[str, str, str, bool], str | None] = {}

    def origin(self, record: Record) -> Origin:
        """Tell whether a record was measured with the source that is here. A stale record never was."""
        if self._variants is None:
            return Origin.SAME
        which = record.variant, record.toolkit, record.interaction, QUANTITIES[record.timed].steps
        if which not in self._hashes:
            self._hashes[which] = self._sha256(record)
        known_hash = self._hashes[which]
        if known_hash is None:
            return Origin.GONE
        return Origin.SAME if known_hash == record.code_sha256 else Origin.OTHER

    def _sha256(self, record: Record) -> str | None:
        variant = (self._variants or {}).get(record.variant)
        # The file of an interaction of one's own is not looked for: a record may name any path.
        known = record.interaction in interaction_files.packaged()
        if variant is None or record.toolkit not in variant.toolkits or not known:
            return None
        try:
            return sources.code_sha256(record, variant)
        except InputError:
            return None

    def sign(self, record: Record) -> str:
        """Return the signs of a row whose source or method is not the one here; empty for any other row."""
        return str(self.origin(record)) + OTHER_METHOD * (self._mixed and self.is_of_other_method(record))

    def is_of_other_method(self, record: Record) -> bool:
        """Tell whether a record was timed and judged by another method than this checkout's."""
        return self._variants is not None and record.method != METHOD

    def method_note(self, records: Collection[Record], noun: str = "row") -> str:
        """Say how many records were measured by another method, its sign in front; empty if none was."""
        others = [record for record in records if self.is_of_other_method(record)]
        if not others:
            return ""
        methods = joined("unnumbered" if record.method is None else str(record.method) for record in others)
        every = not self._mixed and len(others) == len(records)
        which = f"every {noun}" if every else f"{len(others):,} {noun}{'s' * (len(others) > 1)}"
        return f"{OTHER_METHOD} another method ({methods}) than this checkout's ({METHOD}) measured {which}"

    def notes(self, records: Iterable[Record], noun: str = "row") -> list[str]:
        """Say below a table what the signs of its rows mean, each sign in front; one sentence for each."""
        return self.notes_of_rows(([record] for record in records), noun)

    def notes_of_rows(self, rows: Iterable[Collection[Record]], noun: str = "row") -> list[str]:
        """Do the same where a row has several records: it counts once for each sign."""
        rows = list(rows)
        # Of the records of a row, one stands for it: of another method, if there is one.
        methods = [max(row, key=self.is_of_other_method) for row in rows if row]
        return self.source_notes(rows, noun) + list(filter(None, [self.method_note(methods, noun)]))

    def source_notes(self, rows: Iterable[Collection[Record]], noun: str = "row") -> list[str]:
        """Say only which rows have a source that is not the one here."""
        origins = [{self.origin(record) for record in row} for row in rows]
        other, gone = (sum(origin in row for row in origins) for origin in (Origin.OTHER, Origin.GONE))
        notes = []
        if other:
            were = f"{noun} was" if other == 1 else f"{noun}s were"
            notes.append(
                f"{Origin.OTHER} {other:,} {were} measured with different source code from this checkout; to "
                "measure again: gravbench run SWEEP --resume --out FOLDER"
            )
        if gone:
            of = f"{noun} belongs" if gone == 1 else f"{noun}s belong"
            notes.append(
                f"{Origin.GONE} {gone:,} {of} to no variant of this checkout (with that toolkit and a packaged "
                "interaction) and cannot be measured again"
            )
        return notes

    def untimed(self, record: Record) -> str:
        """Write the seconds of what was prepared and not timed: ``order 0.840``; empty where nothing has to be."""
        if record.untimed_seconds:
            return " ".join(f"{name} {number(seconds, 3)}" for name, seconds in record.untimed_seconds.items())
        variant = (self._variants or {}).get(record.variant)
        return NOT_RECORDED if variant is not None and variant.suits_positions(record.axes) else ""

    def changed(self, record: Record) -> str:
        """Write the axes of a record that are not at the defaults of its variant in its toolkit, as far as known."""
        variant = (self._variants or {}).get(record.variant)
        usual = {**TOLD, **(variant.adapted(variant.usual(), record.toolkit, ()) if variant else {})}
        return with_axes(record, usual).partition(" ")[2]

    def presupposed(self, record: Record) -> str:
        """Say what the time or the error of a row asks of the bodies or leaves out; empty where that is nothing."""
        variant = (self._variants or {}).get(record.variant)
        phrases = {
            "equal masses": record.axes.get(EQUAL_MASS) == 1,
            "masses ≥ 0": variant is not None and variant.positive_masses,
            f"FP16 only beyond {record.axes.get(SEPARATION)} block radii": SEPARATION in record.axes,
            "an order made beforehand": bool(self.untimed(record)),
            "approximation": is_partial(record),
        }
        return "; ".join(phrase for phrase, holds in phrases.items() if holds)


NOWHERE = Here()
"""Records alone: their sources are compared with nothing."""


def notes_of_software(pairs: Iterable[tuple[Record, Record]]) -> list[str]:
    """Say how many cases were measured by a software adapter in BASE or NEW, and by another device in the other."""
    mixed = sum(is_software(base.device) != is_software(new.device) for base, new in pairs)
    if not mixed:
        return []
    cases = "case compares" if mixed == 1 else "cases compare"
    return [f"{mixed:,} {cases} a {SOFTWARE}, whose driver computes on the processor, with another device"]


def notes_of_two_methods(pairs: Iterable[tuple[Record, Record]]) -> list[str]:
    """Say how many cases were measured by different methods in BASE and NEW, the records of each pair."""
    methods = [(base.method, new.method) for base, new in pairs if base.method != new.method]
    if not methods:
        return []
    words = joined(f"{method_words(base)} in BASE, {method_words(new)} in NEW" for base, new in methods)
    were = "case was" if len(methods) == 1 else "cases were"
    return [
        f"{len(methods):,} {were} measured by different methods ({words}): the change may be one of the method, "
        "not of the kernel; measure both with one version of gravbench"
    ]
