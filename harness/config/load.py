"""Turn a configuration file and the overrides of the command line into the cases of a sweep.

A list is swept and a scalar is fixed. Everything in the file is checked, whether or not a case comes to use
it, and every message names the file and line, or the ``-p``, that has to change.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gravbench.config import published
from gravbench.config.document import Document, read, shown
from gravbench.config.override import Override, parse
from gravbench.config.request import Request
from gravbench.config.search import Search
from gravbench.config.settings import PARTS, PROTOCOL, Config, Measure, Protocol, checked, listed, validated
from gravbench.errors import BEHIND, InputError, Mistakes, nearest, shortened
from gravbench.model import extent, interaction_files
from gravbench.model.case import Case
from gravbench.model.shard import Shard
from gravbench.model.variant import discover
from gravbench.packaged import folder


@dataclass(frozen=True)
class Sweep:
    """What a configuration asks for: its cases, in its order and each once, and how to measure them.

    ``published`` names the source whose numbers the report sets beside the measured ones. Of a ``shard`` the ``cases``
    are a part of the ``whole``, which is empty where there is no shard. ``misfits`` says of each value of an axis that
    was asked for and has no case why it has none.
    """

    name: str
    path: Path
    description: str
    cases: list[Case]
    measure: Measure
    flops_per_interaction: dict[str, float]
    variant_folders: tuple[Path, ...]
    published: str | None = None
    search: Search = field(default_factory=Search)
    shard: Shard | None = None
    whole: tuple[Case, ...] = ()
    misfits: tuple[str, ...] = ()

    @property
    def sha256(self) -> str:
        """What tells it from others: the hash of all cases and of how they are measured, equal in all of its shards.

        How much memory and log a worker may take is a host's own matter, and not in it.
        """
        keys = [case.key for case in self.whole or self.cases]
        return extent.sha256_of(keys, self.measure_of_all_hosts, self.flops_per_interaction)

    @property
    def toolkits(self) -> list[str]:
        """Those of its cases."""
        return list(dict.fromkeys(case.toolkit for case in self.cases))

    @property
    def measure_of_all_hosts(self) -> dict[str, Any]:
        """How cases are measured, without what is a host's own matter."""
        return self.measure.model_dump(mode="json", exclude={"memory_gigabytes", "log_megabytes"})

    @property
    def folder_name(self) -> str:
        """What the folders of its runs are called, before the date: those of a shard are not taken for the whole."""
        return f"{self.name}-{self.shard.number}of{self.shard.count}" if self.shard else self.name

    def flops(self, interaction: str) -> float:
        """Return the floating-point operations that one interaction counts."""
        counted = float(interaction_files.find(interaction).flops)
        return self.flops_per_interaction.get(Path(interaction).name, self.flops_per_interaction.get("", counted))


def packaged() -> dict[str, Path]:
    """Name the packaged configurations."""
    return {path.stem: path for path in sorted(folder("gravbench.configs").glob("*.yaml"))}


def find(config: str | Path) -> Path:
    """Find a configuration by the stem of a packaged one or by its path.

    Raises:
        InputError: there is none; the sentence names the packaged ones.
    """
    if not isinstance(config, str | Path):
        raise InputError(f"configuration {shortened(repr(config))}: accepted: its name or path")
    config = str(config)
    paths = packaged()
    if config in paths:
        return paths[config]
    path = Path(config)
    try:
        if path.is_file():
            return path
        reason = "a directory" if config and path.is_dir() else "no such file"
    except OSError as error:
        reason = f"cannot be read: {error.strerror}"
    where = shortened(config) or shown(config)
    raise InputError(f"{where}: {reason}, and not a packaged configuration; {nearest(path.stem, list(paths))}")


def words(given: Sequence[str], name: str) -> list[str]:
    """Return the texts of an argument of a program.

    Raises:
        InputError: it is a single text, or no sequence of texts.
    """
    if isinstance(given, str) or not isinstance(given, Sequence) or not all(isinstance(word, str) for word in given):
        raise InputError(f"{name} {shortened(repr(given))}: accepted: a list of texts")
    return list(given)


def load(
    config: str | Path,
    overrides: Sequence[str] = (),
    variants: Sequence[str] = (),
    toolkits: Sequence[str] = (),
    bodies: str | None = None,
    subset: str | None = None,
) -> Sweep:
    """Read a configuration and make its cases.

    Args:
        config: the name of a packaged configuration, or the path of a YAML file.
        overrides: what follows ``-p`` on the command line, such as ``n=1024,4096``, ``p=64..512*2`` or
            ``measure.budget_seconds=1``; each replaces what the configuration says, in every entry.
        variants: keep only the cases of these variants.
        toolkits: keep only the cases of these toolkits.
        bodies: a generator or a file, instead of that of the configuration.
        subset: how bodies are taken from a file, instead of that of the configuration.

    Returns:
        The sweep: its ``cases``, and how they are measured.

    Raises:
        InputError: one sentence that names what is not accepted, where it stands, and what is accepted instead.
    """
    path = find(config)
    overrides, variants, toolkits = (
        words(given, name) for name, given in (("overrides", overrides), ("variants", variants), ("toolkits", toolkits))
    )
    mistakes = Mistakes()
    document = read(path, mistakes)
    content = checked(document, mistakes)
    given = _overrides(overrides, {"bodies": bodies, "subset": subset}, mistakes)
    if content.published is not None:
        with mistakes.noted(document.place(("published",))):
            _check_published(content.published, document)
    folders = _variant_folders(content, document, mistakes)
    known, complete = discover(()), False
    with mistakes.noted(document.place(("variant_folders",))):
        known = discover(folders)
        complete = len(folders) == len(listed(document.data.get("variant_folders", [])))
    protocol = _protocol(content, given.values(), mistakes)
    changed = {name: override for name, override in given.items() if not _is_of_protocol(name)}
    chosen = tuple(variants), tuple(toolkits)
    request = Request(document, content, folders, known, changed, *chosen, mistakes, complete=complete)
    cases = request.cases()
    return Sweep(
        path.stem,
        path,
        content.description,
        cases,
        protocol.measure,
        protocol.flops_per_interaction,
        folders,
        content.published,
        protocol.search,
        misfits=tuple(request.misfits),
    )


def _overrides(texts: Sequence[str], options: Mapping[str, str | None], mistakes: Mistakes) -> dict[str, Override]:
    """Read what follows each ``-p``, and the ``options`` that stand for a setting, by their names."""
    overrides: dict[str, Override] = {}

    def add(override: Override) -> None:
        if (first := overrides.setdefault(override.name, override)) is not override:
            name = shortened(override.name)
            raise InputError(f"{override.where}: {name} is already set by {first.where}; accepted: once")

    for number, text in enumerate(texts):
        with mistakes.noted(place := (BEHIND, number)):
            add(parse(text, place))
    for name, value in options.items():
        if value is not None:
            with mistakes.noted(place := (BEHIND, len(texts))):
                add(Override(name, [value], f"--{name} {shortened(value)}", place))
    return overrides


def _check_published(name: str, document: Document) -> None:
    try:
        published.find(name)
    except InputError as error:
        raise InputError(f"{document.where(('published',))}: {error}") from error


def _variant_folders(content: Config, document: Document, mistakes: Mistakes) -> tuple[Path, ...]:
    """Find the folders of variants; those that are missing are mistakes."""
    folders = []
    for index, text in enumerate(content.variant_folders):
        path, location = document.path.parent / text, ("variant_folders", index)
        if os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises an error where a name is too long
            folders.append(path)
            continue
        what = f"{shortened(str(path), 200)} is not a folder"
        sentence = f"{document.where(location)}: variant_folders has {shown(text)}, but {what}"
        mistakes.note(sentence, document.place(location))
    return tuple(folders)


def _protocol(content: Config, given: Iterable[Override], mistakes: Mistakes) -> Protocol:
    protocol = Protocol.model_construct(
        flops_per_interaction=content.flops_per_interaction, measure=content.measure, search=content.search
    )
    for override in given:
        if _is_of_protocol(override.name):
            with mistakes.noted(override.place):
                protocol = _changed(protocol, override)
    return protocol


def _is_of_protocol(name: str) -> bool:
    return name.rpartition(".")[0] in PARTS or name in PROTOCOL


def _changed(protocol: Protocol, override: Override) -> Protocol:
    """Change one value of a protocol."""
    prefix, _, name = override.name.rpartition(".")
    if len(override.values) != 1:
        count = f"{shortened(override.name)} has {len(override.values)} values"
        raise InputError(f"{override.where}: {count}; accepted: one")
    given = {name: override.values[0]}
    changed = validated(Protocol, {prefix: given} if prefix else given, override.where)
    if not prefix:
        return protocol.model_copy(update={name: getattr(changed, name)})
    part = getattr(protocol, prefix).model_copy(update={name: getattr(getattr(changed, prefix), name)})
    return protocol.model_copy(update={prefix: part})
