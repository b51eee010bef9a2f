"""Take the text of an interaction's file apart, within bounds.

All that follows walks the syntax tree, writes it out again and hands it to compilers, in Python's and in their own
recursion. The bounds are far above what an interaction needs, and below what any of these can take.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files, python_code

FILE_BYTES = 32_768
LEVELS = 50
"""How deep an expression may be: ``a + b + c`` has 3 levels, the innermost of which is ``a``."""
OPERATIONS = 1_000
"""Operators, functions, choices and additions to a sum; Numba compiles a thousand in less than half a minute."""
CHOICES = 50
"""``A if B < C else D``; Numba's recursion grows with each of them."""
SUMS = 64
"""Numbers added up for a body; Numba's time to compile grows with their square."""

_DEEP = f"an expression has more than {LEVELS} levels; accepted: assign parts of it to names"
_OPERATION = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp, ast.AugAssign)


def read(path: Path) -> str:
    """Return the text of a file that may be an interaction's.

    Raises:
        OSError: there is no such file, it cannot be read, or is no regular file.
        InputError: it is too long, or not a text in UTF-8.
    """
    size = path.stat().st_size
    if size > FILE_BYTES and path.is_file():
        raise InputError(f"{path} has {size:,} bytes; accepted: at most {FILE_BYTES:,}")
    try:
        return files.text(path)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8; accepted: UTF-8 text") from None


def parsed(text: str, where: str) -> tuple[ast.Module, dict[int, str]]:
    """Return the syntax tree and the comment of each line that has one; ``where`` begins the messages.

    Raises:
        InputError: it is not Python, or out of bounds.
    """
    try:
        module = python_code.tree(text)
    except SyntaxError as error:
        line = f", line {error.lineno}" if error.lineno else ""
        raise InputError(f"{where}{line}: not Python: {error.msg}") from None
    except ValueError as error:
        raise InputError(f"{where}: not Python: {error}") from None
    except (RecursionError, MemoryError):
        raise InputError(f"{where}{_longest(text)}: {_DEEP}") from None
    _check(module, where)
    return module, {token.start[0]: token.string for token in _tokens(text) if token.type == tokenize.COMMENT}


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    """Split a text into tokens, up to where it is not Python."""
    with suppress(SyntaxError, tokenize.TokenError):
        yield from tokenize.generate_tokens(io.StringIO(text).readline)


def _check(module: ast.Module, where: str) -> None:
    """Hold the tree to the bounds, without recursion, for it may be deeper than Python can recurse."""
    counts: Counter[type[ast.AST]] = Counter()
    waiting: list[tuple[ast.AST, int]] = [(module, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, ast.expr):
            level += 1
            if level > LEVELS:
                raise InputError(f"{where}, line {node.lineno}: {_DEEP}")
        counts[type(node)] += 1
        waiting += [(child, level) for child in ast.iter_child_nodes(node)]
    operations = sum(counts[kind] for kind in _OPERATION)
    for count, what, most in ((operations, "operations", OPERATIONS), (counts[ast.IfExp], "choices", CHOICES)):
        if count > most:
            raise InputError(f"{where}: {count:,} {what}; accepted: at most {most:,}")


def _longest(text: str) -> str:
    """Say where the longest statement is, if one is long."""
    counts: Counter[int] = Counter()
    first = None
    for token in _tokens(text):
        if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            first = first or token.start[0]
            counts[first] += 1
            if token.type == tokenize.NEWLINE:
                first = None
    return "".join(f", line {line}" for line, count in counts.most_common(1) if count > LEVELS)
