"""Read a YAML file so that every value can be traced to its line.

Only what a configuration needs is understood: mappings, lists, text, whole numbers, numbers, true, false and
null, as YAML 1.2 writes them. So 1e-3 is a number, and ``on``, ``1:30`` and ``2020-01-01`` are texts, which plain
PyYAML, a reader of YAML 1.1, has the other way round.
"""

from __future__ import annotations

import json
import re
import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gravbench.errors import InputError

WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9]*)")
NUMBER = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(?:[eE][-+]?[0-9]+)?")
MOST_DIGITS = 300  # beyond it a whole number is a mistake, and costs Python time
_WORDS = {"": None, "~": None, "null": None, "true": True, "false": False}
_SHOWN = 60  # characters of a faulty value that a message quotes


class _Loader(yaml.SafeLoader):
    yaml_implicit_resolvers: dict[Any, Any] = {}  # noqa: RUF012 - as PyYAML declares it; plain() takes their place


@dataclass(frozen=True)
class Document:
    """The content of a file, and where each part of it stands."""

    path: Path
    data: Any
    root: yaml.Node

    def where(self, location: Sequence[int | str]) -> str:
        """Name the file and the line of the key or list element at ``location``, or of what holds it."""
        node, line = self.root, self.root.start_mark.line
        for part in location:
            found: list[tuple[yaml.Node, yaml.Node]] = []
            if isinstance(node, yaml.MappingNode):
                found = [(key, value) for key, value in node.value if key.value == str(part)]
            elif isinstance(node, yaml.SequenceNode) and isinstance(part, int):
                found = [(node.value[part], node.value[part])]
            if not found:
                break
            line, node = found[0][0].start_mark.line, found[0][1]
        return f"{self.path}, line {line + 1}"


def read(path: Path) -> Document:
    """Read one file.

    Raises:
        InputError: it is missing, a directory, unreadable, empty or no YAML, has a key twice, or uses a tag.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is no UTF-8; accepted: a text file in UTF-8") from error
    try:
        root = yaml.compose(text, _Loader)
        data = None if root is None else _value(path, root, {})
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f", line {mark.line + 1}" if mark else ""
        raise InputError(f"{path}{line}: no valid YAML: {error.problem or error.context}") from error
    except yaml.reader.ReaderError as error:
        line = f", line {text.count(chr(10), 0, error.position) + 1}"
        raise InputError(f"{path}{line}: no valid YAML: character {error.character!r} is not accepted") from error
    except RecursionError as error:
        raise InputError(f"{path}: nested too deeply; accepted: a mapping of a few levels") from error
    if root is None or data is None:
        raise InputError(f"{path}: empty; accepted: keys and values, among them n and variants")
    return Document(path, data, root)


def plain(text: str) -> bool | int | float | str | None:
    """Say what an unquoted text means: null, true, false, a whole number, a number, or itself."""
    if text in _WORDS:
        return _WORDS[text]
    if len(text) <= MOST_DIGITS:
        if WHOLE.fullmatch(text):
            return int(text)
        if NUMBER.fullmatch(text):
            return float(text)
    return text


def shown(value: object) -> str:
    """Quote a value in a message as the file writes it, on one line and not at length."""
    if isinstance(value, str):
        short = value if len(value) <= _SHOWN else value[:_SHOWN] + "..."
        return json.dumps(short, ensure_ascii=not short.isprintable())
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return reprlib.repr(value)


def _value(path: Path, node: yaml.Node, made: dict[int, Any]) -> Any:
    """Convert a node; ``made`` holds those converted, by identity, since an alias is the node it stands for."""
    if id(node) in made:
        if made[id(node)] is made:
            raise InputError(f"{path}, line {node.start_mark.line + 1}: an alias inside what it stands for")
        return made[id(node)]
    made[id(node)] = made  # marks the node as not finished
    value: Any
    if node.tag == "tag:yaml.org,2002:str" and isinstance(node, yaml.ScalarNode):
        value = plain(node.value) if node.style is None else node.value
    elif node.tag == "tag:yaml.org,2002:seq" and isinstance(node, yaml.SequenceNode):
        value = [_value(path, element, made) for element in node.value]
    elif node.tag == "tag:yaml.org,2002:map" and isinstance(node, yaml.MappingNode):
        value = {}
        for key_node, value_node in node.value:
            where = f"{path}, line {key_node.start_mark.line + 1}"
            key = _value(path, key_node, made)
            if not isinstance(key, str):
                raise InputError(f"{where}: {shown(key)} is no key; accepted: text")
            if key in value:
                raise InputError(f"{where}: the key {shown(key)} is there twice; accepted: once")
            value[key] = _value(path, value_node, made)
    else:
        raise InputError(f"{path}, line {node.start_mark.line + 1}: tag {shown(node.tag)} is not accepted")
    made[id(node)] = value
    return value
