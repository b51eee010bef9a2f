"""Read a YAML file so that every value can be traced to its line.

Only what a configuration needs is understood: mappings, lists, text, whole numbers, numbers, true, false and
null, as YAML 1.2 writes them. So 1e-3 is a number, 1e6 a whole one, and ``on``, ``1:30`` and ``2020-01-01`` are
texts, which plain PyYAML, a reader of YAML 1.1, has the other way round.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from gravbench.config.limits import MOST_BYTES, MOST_DIGITS, MOST_LEVELS, MOST_PARTS
from gravbench.config.numbers import NUMBER, number
from gravbench.errors import InputError, Mistakes, Place, shortened
from gravbench.model import files

TOO_DEEP = f"nested too deeply; accepted: up to {MOST_LEVELS} levels"

try:
    from yaml import CSafeLoader as Loader  # ten times as fast
except ImportError:  # PyYAML was built without libyaml
    from yaml import SafeLoader as Loader  # type: ignore[assignment]

_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_TAGS = {yaml.ScalarNode: "str", yaml.SequenceNode: "seq", yaml.MappingNode: "map"}  # of what has none in the file
_SHOWN = 60  # characters of a faulty value that a message quotes


class _Loader(Loader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - as PyYAML declares it; plain() takes their place


@dataclass(frozen=True)
class Document:
    """The content of a file, and where each part of it stands."""

    path: Path
    data: Any
    root: yaml.Node

    def where(self, location: Sequence[int | str]) -> str:
        """Name the file and the line of the key or list element at ``location``, or of what holds it."""
        return f"{self.path}, line {self.place(location)[0] + 1}"

    def place(self, location: Sequence[int | str]) -> Place:
        """Return the line and the column of the key or list element at ``location``, or of what holds it."""
        lengths = range(len(location), 0, -1)
        places = (self._places.get(tuple(location[:length])) for length in lengths)
        return next(filter(None, places), (self.root.start_mark.line, self.root.start_mark.column))

    @cached_property
    def _places(self) -> dict[tuple[int | str, ...], Place]:
        """Where every key and list element stands."""
        places: dict[tuple[int | str, ...], Place] = {}
        held: list[tuple[tuple[int | str, ...], yaml.Node]] = [((), self.root)]
        while held:
            location, node = held.pop()
            parts: Iterable[tuple[int | str, yaml.Node, yaml.Node]] = ()
            if isinstance(node, yaml.MappingNode):
                keys = ((key, value) for key, value in node.value if isinstance(key, yaml.ScalarNode))
                parts = ((key.value, key, value) for key, value in keys)
            elif isinstance(node, yaml.SequenceNode):
                parts = ((number, element, element) for number, element in enumerate(node.value))
            for part, at, value in parts:
                if (*location, part) not in places:  # of a key that occurs twice the first value counts
                    places[*location, part] = at.start_mark.line, at.start_mark.column
                    held.append(((*location, part), value))
        return places


def read(path: Path, mistakes: Mistakes | None = None, *, keys: str = "n and variants") -> Document:
    """Read one file, in which these ``keys`` are expected.

    Keys that occur twice or are no text, and tags, are collected in ``mistakes`` and passed over.

    Raises:
        InputError: it is missing, no regular file, unreadable, empty, no YAML, or beyond the limits of size, nesting
            and parts; without ``mistakes`` also, it has a key twice, or uses a tag.
    """
    return parsed(path, text_of(path, MOST_BYTES), mistakes, keys=keys)


def text_of(path: Path, most: int) -> str:
    """Read a text file of up to so many bytes.

    Raises:
        InputError: it is missing, no regular file, unreadable, too large, or not UTF-8.
    """
    try:
        return files.content(path, most).decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; accepted: a text file in UTF-8") from error


def parsed(path: Path, text: str, mistakes: Mistakes | None = None, *, keys: str) -> Document:
    """Read the text of a file, or a part of it with empty lines in the place of what stands before; as ``read``.

    Raises:
        InputError: as ``read``, but for what is not about the text.
    """
    collected = Mistakes() if mistakes is None else mistakes
    if wrong := yaml.reader.Reader.NON_PRINTABLE.search(text):
        line = f", line {text.count(chr(10), 0, wrong.start()) + 1}"
        raise InputError(f"{path}{line}: invalid YAML: character {wrong[0]!r} is not accepted")
    try:
        _measure(path, text)
        root = yaml.compose(text, _Loader)
        data = None if root is None else _Values(path, collected).of(root).value
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        # libyaml sees the end of a file behind its last line.
        line = f", line {min(mark.line + 1, len(text.splitlines()))}" if mark else ""
        if "nesting depth" in (error.problem or ""):  # libyaml's own limit, which it meets while it looks ahead
            raise InputError(f"{path}{line}: {TOO_DEEP}") from error
        raise InputError(f"{path}{line}: invalid YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise InputError(f"{path}: invalid YAML: {error}") from error
    if root is None or data is None:
        raise InputError(f"{path}: empty; accepted: keys and values, among them {keys}")
    if mistakes is None:
        collected.check()
    return Document(path, data, root)


def _measure(path: Path, text: str) -> None:
    """Refuse what is nested too deeply or has too many parts, before anything is made of it."""
    levels = 0
    for parts, event in enumerate(yaml.parse(text, _Loader)):
        levels += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        _check(path, event, levels, parts // 2)  # lists and mappings have two events


def _check(path: Path, part: yaml.Node | yaml.Event, levels: int, parts: int) -> None:
    where = f"{path}, line {part.start_mark.line + 1}" if part.start_mark else str(path)
    if levels > MOST_LEVELS:
        raise InputError(f"{where}: {TOO_DEEP}")
    if parts > MOST_PARTS:
        raise InputError(f"{where}: too many values with aliases expanded; accepted: up to {MOST_PARTS}")


def plain(text: str) -> bool | int | float | str | None:
    """Say what an unquoted text means: null, true, false, a whole number, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= MOST_DIGITS and NUMBER.fullmatch(text):
        return number(text)
    return text


def shown(value: object) -> str:
    """Quote a value in a message as the file writes it, on one line and not at length."""
    if isinstance(value, str):
        short = shortened(value, _SHOWN)
        return json.dumps(short, ensure_ascii=not short.isprintable())
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


class _Value(NamedTuple):
    """What a node stands for, how many parts it has and in how many levels, aliases written out."""

    value: Any
    parts: int = 1
    levels: int = 0


_UNFINISHED = _Value(None)


class _Values:
    """Converts the nodes of a file, each once, since an alias is the node it stands for."""

    def __init__(self, path: Path, mistakes: Mistakes) -> None:
        self.path = path
        self.mistakes = mistakes
        self.made: dict[int, _Value] = {}

    def of(self, node: yaml.Node) -> _Value:
        made = self.made.get(id(node))
        if made is _UNFINISHED:
            raise InputError(f"{self._where(node)}: an alias inside its own anchor")
        if made is None:
            self.made[id(node)] = _UNFINISHED
            made = self.made[id(node)] = self._convert(node)
            _check(self.path, node, made.levels, made.parts)
        return made

    def _where(self, node: yaml.Node) -> str:
        return f"{self.path}, line {node.start_mark.line + 1}"

    def _note(self, node: yaml.Node, sentence: str) -> None:
        place = node.start_mark.line, node.start_mark.column
        self.mistakes.note(f"{self._where(node)}: {sentence}", place)

    def _convert(self, node: yaml.Node) -> _Value:
        if node.tag != f"tag:yaml.org,2002:{_TAGS[type(node)]}":
            self._note(node, f"tag {shown(node.tag)} is not accepted")
        if isinstance(node, yaml.ScalarNode):
            return _Value(plain(node.value) if not node.style else node.value)
        if isinstance(node, yaml.SequenceNode):
            return self._holding([self.of(element) for element in node.value], list)
        values_of: dict[str, _Value] = {}
        for key_node, value_node in node.value:
            key = self.of(key_node).value
            if not isinstance(key, str):
                self._note(key_node, f"{shown(key)} is not a key; accepted: text")
            elif key in values_of:
                self._note(key_node, f"the key {shown(key)} occurs twice; accepted: once")
            else:
                values_of[key] = self.of(value_node)
        return self._holding(list(values_of.values()), lambda values: dict(zip(values_of, values, strict=True)))

    @staticmethod
    def _holding(held: list[_Value], make: Callable[[Iterable[Any]], Any]) -> _Value:
        value = make(member.value for member in held)
        return _Value(
            value, 1 + sum(member.parts for member in held), 1 + max((member.levels for member in held), default=0)
        )
