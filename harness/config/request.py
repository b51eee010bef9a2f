"""The cases that a configuration and the command line ask for together."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from gravbench.config.axes import axis_values
from gravbench.config.condition import Condition
from gravbench.config.document import Document, shown
from gravbench.config.limits import MOST_CASES
from gravbench.config.override import Override
from gravbench.config.settings import ENTRY_KEYS, PROTOCOL, SETTINGS, Config, Settings, validated
from gravbench.config.sweep import Block, cases_of, misfits, unused
from gravbench.errors import BEHIND, LISTING, InputError, Mistakes, listed, nearest, shortened
from gravbench.model import interaction_files
from gravbench.model.case import Case
from gravbench.model.declaring import undeclared
from gravbench.model.generated_bodies import GENERATORS, is_generated
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.toolkits import catalogue, unnamed
from gravbench.model.variant import AxisValue, Variant

ALL = "all"
OPTIONS = ("variant", "toolkit", "device")
"""What an option chooses, and no override."""
MOST_HINTS = 3
"""Variants of which a sentence says what values would fit."""


@dataclass(frozen=True)
class Request:
    """A configuration, and what the command line says about its cases.

    ``known`` are the variants that gravbench has and those in the ``folders`` of the configuration, ``complete`` unless
    a folder cannot be read. ``common`` holds the values that are the same for every entry, made once, ``mistakes`` what
    is wrong with the configuration and the command line, and ``misfits`` why some values of axes have no case.
    """

    document: Document
    content: Config
    folders: Sequence[Path]
    known: Mapping[str, Variant]
    overrides: Mapping[str, Override]
    chosen_variants: tuple[str, ...]
    chosen_toolkits: tuple[str, ...]
    mistakes: Mistakes = field(default_factory=Mistakes)
    common: dict[str, list[Any]] = field(default_factory=dict)
    misfits: list[str] = field(default_factory=list)
    complete: bool = True

    def cases(self) -> list[Case]:
        """Make every case once, in the order of the file.

        Raises:
            InputError: everything that is wrong with the configuration and with what the command line says of it; or no
                case is left, or there are too many.
        """
        entries = [self._variants(index) for index in range(len(self.content.variants))]
        self._check_settings()
        selected = self._selected({variant.name: variant for variant in chain.from_iterable(entries)})
        self.mistakes.check()
        blocks = [self._blocks(index, variants, selected) for index, variants in enumerate(entries)]
        self._check_size(blocks)
        self._check_toolkits_chosen(entries, blocks, selected)
        cases = self._combined(blocks)
        self.mistakes.check()
        self.misfits.extend(unused(chain.from_iterable(blocks)))
        self._check_effects(cases)
        return cases

    def _check_effects(self, cases: Sequence[Case]) -> None:
        """Refuse what the command line sets and no case uses.

        Raises:
            InputError: there is such a setting.
        """
        all_made, all_read = (all(is_generated(case.bodies) == made for case in cases) for made in (True, False))
        causes = {
            "subset": "all bodies are generated" if all_made else None,
            "seed": "all bodies are read from files" if all_read else None,
            **dict.fromkeys(("integrator", "dt"), None if any(case.dt for case in cases) else "no case times a step"),
        }
        for name, why in causes.items():
            if why and name in self.overrides:
                raise InputError(f"{self.overrides[name].where}: has no effect, because {why}; accepted: without it")

    def _combined(self, blocks: Sequence[Sequence[Block]]) -> list[Case]:
        """Make the cases of all entries, and collect what is wrong with them; what several share is said of the first.

        Raises:
            InputError: no case is left.
        """
        cases: dict[tuple[str, str], Case] = {}
        removed_at_all: Counter[str] = Counter()
        noted: set[str] = set()
        for index, made_of in enumerate(blocks):
            removed: Counter[str] = Counter()
            where = self._where(index)
            try:
                made = [case for block in made_of if block.toolkits for case in cases_of(block, removed)]
                # What the command line changes or selects may well leave an entry nothing to do.
                if not made and not (self.overrides or self.chosen_variants or self.chosen_toolkits):
                    raise InputError(f"{where}: {_nothing_left(removed, made_of)}")
            except InputError as error:
                what = str(error).removeprefix(f"{where}: ")
                if what not in noted:
                    self.mistakes.note(str(error), self.document.place(("variants", index)))
                noted.add(what)
                continue
            removed_at_all += removed
            for case in made:
                cases.setdefault((case.key, case.bodies), case)
        if not cases and not noted:
            why = _nothing_left(removed_at_all, [*chain.from_iterable(blocks)])
            raise InputError(f"{self.document.path}: {why}")
        return list(cases.values())

    def _check_size(self, blocks: Sequence[Sequence[Block]]) -> None:
        combinations = 0
        for number, entry_blocks in enumerate(blocks, 1):
            combinations += sum(block.combinations for block in entry_blocks if block.toolkits)
            if combinations > MOST_CASES:
                more = " or more" if number < len(blocks) else ""
                raise InputError(
                    f"{self.document.path}: {combinations}{more} combinations; accepted: up to {MOST_CASES}"
                )

    def _check_toolkits_chosen(
        self, entries: Sequence[Sequence[Variant]], blocks: Sequence[Sequence[Block]], selected: Mapping[str, Variant]
    ) -> None:
        if any(block.toolkits for block in chain.from_iterable(blocks)):
            return
        offered = zip(self.content.variants, entries, strict=True)
        named = [(variant, entry.toolkit or catalogue()) for entry, variants in offered for variant in variants]
        has = sorted(
            {
                name
                for variant, toolkits in named
                if variant.name in selected
                for name in variant.toolkits
                if name in toolkits
            }
        )
        options = " ".join(f"--toolkit {name}" for name in self.chosen_toolkits)
        raise InputError(f"{options}: no case of {self.document.path} runs on it; accepted: {listed(has)}")

    def _where(self, index: int, *location: str | int) -> str:
        return self.document.where(("variants", index, *location))

    @contextmanager
    def _noted(self, index: int, *location: str | int) -> Iterator[str]:
        """Collect what is wrong in the block about a part of an entry; gives what begins the message."""
        with self.mistakes.noted(self.document.place(("variants", index, *location))):
            yield self._where(index, *location)

    def _variants(self, index: int) -> list[Variant]:
        """Look the names of an entry up, and collect everything that is wrong with it."""
        entry = self.content.variants[index]
        names: dict[str, None] = {}
        for position, name in enumerate(entry.variant):
            if name == ALL:
                names |= {
                    variant.name: None for variant in self.known.values() if variant.path.is_relative_to(BUILT_IN)
                }
            elif name in self.known:
                names[name] = None
            else:
                # Where a folder is missing, its variants are not known.
                if not self.complete:
                    continue
                with self._noted(index, "variant", position) as where:
                    why = undeclared(name, self.folders) or nearest(name, [*self.known, ALL], LISTING)
                    raise InputError(f"{where}: no variant {shown(name)}; {why}")
        variants = [self.known[name] for name in names]
        for variant in variants:
            for axis in set(variant.axes) & {*ENTRY_KEYS, *PROTOCOL}:
                raise InputError(f"{variant.path}: axis {axis} has the name of a setting; accepted: another name")
        with self._noted(index, "when") as where:
            self._condition(index, variants)
        # Of a variant that is not known, nobody knows what it takes.
        if len(names) >= len(set(entry.variant)):
            self._check_toolkits(index, variants)
            self._check_axes(index, variants)
        return variants

    def _check_settings(self) -> None:
        """Look the settings of all entries up, those that stand for several once."""
        checked: set[str] = set()
        for index, entry in enumerate(self.content.variants):
            set_here = entry.model_fields_set - self.overrides.keys()
            for name in (name for name in SETTINGS if name in set_here or name not in checked):
                location = ("variants", index, name) if name in set_here else (name,)
                override = self.overrides.get(name)
                with self.mistakes.noted(override.place if override else self.document.place(location)):
                    self._setting(name, index)
            checked |= set(SETTINGS) - set_here

    def _check_axes(self, index: int, variants: list[Variant]) -> None:
        for axis, values in self.content.variants[index].axes.items():
            with self._noted(index, axis) as where:
                if not values:
                    raise InputError(f"{where}: {axis} is []; accepted: at least one value")
                owners = [variant for variant in variants if axis in variant.axes]
                if not owners:
                    names = listed(variant.name for variant in variants)
                    problem = f"{names} has no" if len(variants) == 1 else f"none of {names} has an"
                    accepted = dict.fromkeys([*chain.from_iterable(variant.axes for variant in variants), *ENTRY_KEYS])
                    unknown = f"{problem} axis {shown(axis)}; {nearest(axis, list(accepted))}"
                    raise InputError(f"{where}: {_lost(variants, axis) or unknown}")
                for variant in owners:
                    axis_values(variant, axis, values, where)

    def _check_toolkits(self, index: int, variants: list[Variant]) -> None:
        entry = self.content.variants[index]
        offered = list(dict.fromkeys(chain.from_iterable(variant.toolkits for variant in variants)))
        wrong = [position for position, name in enumerate(entry.toolkit) if name not in offered]
        for position in wrong:
            with self._noted(index, "toolkit", position) as where:
                toolkit = entry.toolkit[position]
                names = listed(variant.name for variant in variants)
                problem = (
                    f"toolkit {toolkit} has no {names}" if toolkit in catalogue() else f"no toolkit {shown(toolkit)}"
                )
                raise InputError(f"{where}: {problem}; {nearest(toolkit, offered)}")
        if wrong:
            return
        for variant in variants:
            # `all` means the variants that have the toolkit; a variant that is named has to have it.
            if entry.toolkit and variant.name in entry.variant and not set(entry.toolkit) & set(variant.toolkits):
                with self._noted(index, "toolkit") as where:
                    problem = f"{variant.name} runs on no {' or '.join(entry.toolkit)}"
                    raise InputError(f"{where}: {problem}; accepted: {listed(variant.toolkits)}")

    def _selected(self, named: Mapping[str, Variant]) -> Mapping[str, Variant]:
        """Keep the variants that the command line chooses, and collect what is wrong with what it says."""
        selected = {name: variant for name, variant in named.items() if name in (self.chosen_variants or named)}
        for name in self.chosen_toolkits:
            if name not in catalogue():
                self._note(f"--toolkit {shortened(name)}: no such toolkit; {nearest(name, list(catalogue()))}")
        # Of variants that are not known, nobody knows what they take.
        if all(entry.variant and {*entry.variant} <= {*self.known, ALL} for entry in self.content.variants):
            wrong = [name for name in self.chosen_variants if name not in named]
            for name in wrong:
                self._note(f"--variant {shortened(name)}: not in {self.document.path}; {nearest(name, list(named))}")
            if not wrong:
                self._check_overrides(selected)
        return selected

    def _note(self, sentence: str) -> None:
        """Collect what is wrong with an option, behind what is wrong with the overrides."""
        self.mistakes.note(sentence, (BEHIND, len(self.overrides)))

    def _check_overrides(self, selected: Mapping[str, Variant]) -> None:
        axes = dict.fromkeys(chain.from_iterable(variant.axes for variant in selected.values()))
        accepted = [*axes, *SETTINGS, *PROTOCOL]
        for override in self.overrides.values():
            with self.mistakes.noted(override.place):
                if override.name not in accepted:
                    hint = _option_for(override) or nearest(override.name, accepted)
                    unknown = f"no axis or setting {shown(override.name)}; {hint}"
                    raise InputError(f"{override.where}: {_lost(selected.values(), override.name) or unknown}")
                for variant in selected.values():
                    if override.name in variant.axes:
                        self._axis(variant, override.name, 0)

    def _blocks(self, index: int, variants: list[Variant], selected: Mapping[str, Variant]) -> list[Block]:
        entry = self.content.variants[index]
        wanted = self._condition(index, variants)
        settings = {name: self._setting(name, index) for name in SETTINGS}
        chosen = self.chosen_toolkits or catalogue()
        stated = [name for name in SETTINGS if name in entry.model_fields_set | self.content.model_fields_set]
        places = {name: self._place_of(name, index) for name in (*stated, *entry.axes, *self.overrides)}
        blocks = []
        for variant in (variant for variant in variants if variant.name in selected):
            able = entry.toolkit or [*unnamed(variant.toolkits), *self.chosen_toolkits]
            offered = [name for name in variant.toolkits if name in able]
            toolkits = [name for name in offered if name in chosen]
            axes = {axis: self._axis(variant, axis, index) for axis in variant.axes}
            named = variant.name in self.chosen_variants
            blocks.append(Block(variant, toolkits, settings, axes, wanted, self._where(index), offered, places, named))
        return blocks

    def _place_of(self, name: str, index: int) -> str:
        """Say where an axis or a setting has its value: on the command line, in the entry, or for all entries."""
        if override := self.overrides.get(name):
            return override.where
        entry = self.content.variants[index]
        return (
            self._where(index, name)
            if name in entry.axes.keys() | entry.model_fields_set
            else self.document.where((name,))
        )

    def _condition(self, index: int, variants: list[Variant]) -> Condition:
        names = ["variant", "chosen", "toolkit", *SETTINGS, *chain.from_iterable(variant.axes for variant in variants)]
        return Condition(self.content.variants[index].when, names, self._where(index, "when"))

    def _axis(self, variant: Variant, axis: str, index: int) -> list[AxisValue]:
        if override := self.overrides.get(axis):
            key = f"{variant.name} {axis}"
            if key not in self.common:
                self.common[key] = axis_values(variant, axis, override.values, override.where)
            return self.common[key]
        values = self.content.variants[index].axes.get(axis, [variant.defaults[axis]])
        return axis_values(variant, axis, values, self._where(index, axis))

    def _setting(self, name: str, index: int) -> list[Any]:
        """Return the values of a setting for an entry, files by their paths."""
        entry, override = self.content.variants[index], self.overrides.get(name)
        set_here = name in entry.model_fields_set and not override
        if not set_here and name in self.common:
            return self.common[name]
        source = validated(Settings, {name: override.values}, override.where) if override else self.content
        values: list[Any] = getattr(entry if set_here else source, name)
        if name == "bodies":
            values = self._files(name, values, index, is_generated, list(GENERATORS), "a generator")
        if name == "interaction":
            packaged = interaction_files.packaged()
            values = self._files(name, values, index, packaged.__contains__, list(packaged), "a packaged one")
            for spec in values:
                interaction_files.find(spec)  # what is wrong in a file is said before anything runs
        if not set_here:
            self.common[name] = values
        return values

    def _files(
        self,
        key: str,
        specs: list[str],
        index: int,
        is_name: Callable[[str], bool],
        names: list[str],
        kind: str,
    ) -> list[str]:
        return [
            spec if is_name(spec) else self._file(key, spec, index, position, names, kind)
            for position, spec in enumerate(specs)
        ]

    def _file(self, key: str, spec: str, index: int, position: int, names: list[str], kind: str) -> str:
        """Find a file of bodies or of an interaction: beside the configuration, or from the working directory."""
        if override := self.overrides.get(key):
            where, places = override.where, [Path(spec)]
        else:
            block = ("variants", index) if key in self.content.variants[index].model_fields_set else ()
            where = self.document.where((*block, key, position))
            places = [self.document.path.parent / spec, Path(spec)]
        for place in places:
            if os.path.isfile(place):  # noqa: PTH113 - Path.is_file raises an error where a name is too long
                return str(place)
        folder = spec and any(map(os.path.isdir, places))
        what = "a directory, neither a file" if folder else "neither a file"
        raise InputError(
            f"{where}: {key} is {shown(spec)}, {what} nor {kind}; {nearest(spec.partition(' ')[0], names)}"
        )


def _option_for(override: Override) -> str | None:
    """Say which option chooses what an override names; None where there is none."""
    if override.name not in OPTIONS:
        return None
    words = [f"--{override.name} {shortened(str(value))}" for value in override.values]
    return f"accepted: {' '.join(words[:MOST_HINTS])}"


def _lost(variants: Iterable[Variant], axis: str) -> str:
    """Say what became of an axis that one of the variants once had; empty if none had it."""
    return next(filter(None, (variant.lost(axis) for variant in variants)), "")


def _nothing_left(removed: Counter[str], blocks: Sequence[Block]) -> str:
    """Say why no case is left, and for the first variants which values of axes do not go together."""
    reasons = "; ".join(f"{shortened(reason, 200)} ({count})" for reason, count in removed.items())
    firsts = dict.fromkeys(filter(None, (next(misfits(block), None) for block in blocks)))
    hints = "".join(f"; {sentence}" for sentence in [*firsts][:MOST_HINTS])
    return f"no case is left; every combination is removed by {reasons}{hints}"
