"""The lines of a joined text of CUDA C, and the function that each of them stands in."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_MOVED = re.compile(r'#line (\d+) "(.*)"')
_ASIDE = re.compile(r'"(?:\\.|[^"\\])*"|//.*|\'[{}]\'')
# With its arguments, in which there may be parentheses up to two deep.
_ATTRIBUTE = re.compile(r"__\w+__(?:\s*\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))?")
_COMMENT = re.compile(r"\s*//.*")
_FUNCTION = re.compile(r"(\w+)\s*\(")


@dataclass(frozen=True, slots=True)
class Places:
    """Of a line of a file: ``lines`` has its text without the comment, ``functions`` the function that it stands in."""

    lines: dict[tuple[str, int], str] = field(default_factory=dict)
    functions: dict[tuple[str, int], str] = field(default_factory=dict)


def places(source: str) -> Places:
    """Read a text in which ``#line`` says from which file its parts are."""
    where = Places()
    file, number, depth, head, inside = "", 0, 0, "", ""
    for row in source.split("\n"):
        if moved := _MOVED.match(row):
            # A file begins outside of functions, whatever the branches of the preprocessor before it left open.
            if moved[2] != file:
                depth, head, inside = 0, "", ""
            file, number = moved[2], int(moved[1]) - 1
            continue
        number += 1
        where.lines[file, number] = _COMMENT.sub("", row).strip()
        if row.startswith("#"):
            continue
        text = _ASIDE.sub("", row)
        first = depth == 0
        for part in re.split(r"([{};])", text):
            if part == "{":
                if depth == 0:
                    inside, head = _named(head), ""
                depth += 1
            elif part == "}":
                depth = max(0, depth - 1)
            elif depth == 0:
                head = "" if part == ";" else f"{head} {part}"
        if inside and (depth or not first or "{" in text):
            where.functions[file, number] = inside
        if depth == 0:
            inside = ""
    return where


def _named(head: str) -> str:
    """Return the name of a function from what stands before its body; empty for anything else, such as a struct."""
    plain = _ATTRIBUTE.sub(" ", head)
    function = _FUNCTION.search(plain)
    return function[1] if function and not {"struct", "union", "enum"} & set(plain.split()) else ""
