"""Take the text of an interaction's file apart, within bounds.

All that follows walks the syntax tree, writes it out again and hands it to compilers, in Python's and in their own
recursion. The bounds are far above what an interaction needs, and below what any of these can take.
"""

from __future__ import annotations

import ast
import io
import stat
import tokenize
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from gravbench.errors import InputError
from gravbench.model import files, python_code

FILE_BYTES = 32_768
LEVELS = 50
"""How deep an expression may be: ``a + b + c`` has 3 levels, the innermost of which is ``a``."""
OPERATIONS = 1_000
"""Operators, functions, choices and additions to a sum; Numba compiles a thousand in seconds."""
CHOICES = 50
"""``A if B < C else D``; Numba's recursion grows with each of them."""
SUMS = 64
"""Numbers added up for a body; Numba's time to compile grows with their square."""

_OPERATION = (ast.BinOp, ast.UnaryOp, ast.Call, ast.IfExp, ast.AugAssign)


def read(path: Path) -> str:
    """Return the text of a file that may be an interaction's.

    Raises:
        OSError: there is no such file, or it cannot be read.
        InputError: it is a directory or a device, too long, or not a text in UTF-8.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        kind = "a directory" if stat.S_ISDIR(status.st_mode) else "a pipe or a device"
        raise InputError(f"{path} is {kind}; accepted: a file")
    if status.st_size > FILE_BYTES:
        raise InputError(f"{path} has {status.st_size:,} bytes; accepted: at most {FILE_BYTES:,}")
    try:
        return files.text(path)
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}, line {line}: not UTF-8; accepted: a text in UTF-8") from None


def parsed(text: str, where: str) -> tuple[ast.Module, dict[int, str]]:
    """Return the syntax tree and the comment of each line that has one; ``where`` begins the messages.

    Raises:
        InputError: it is not Python, or out of bounds.
    """
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        module = python_code.tree(text)
    except (SyntaxError, ValueError, tokenize.TokenError) as error:
        raise InputError(f"{where}: not Python: {' '.join(str(error).split())}") from None
    except (RecursionError, MemoryError):
        raise InputError(f"{where}{_longest(tokens)}: nested too deeply; accepted: {LEVELS} levels") from None
    _check(module, where)
    return module, {token.start[0]: token.string for token in tokens if token.type == tokenize.COMMENT}


def _check(module: ast.Module, where: str) -> None:
    """Hold the tree to the bounds, without recursion, for it may be deeper than Python can recurse."""
    found: Counter[type[ast.AST]] = Counter()
    waiting: list[tuple[ast.AST, int]] = [(module, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, ast.expr):
            level += 1
            if level > LEVELS:
                said = f"an expression has more than {LEVELS} levels"
                raise InputError(f"{where}, line {node.lineno}: {said}; accepted: parts of it with names of their own")
        found[type(node)] += 1
        waiting += [(child, level) for child in ast.iter_child_nodes(node)]
    operations = sum(found[kind] for kind in _OPERATION)
    for count, what, most in ((operations, "operations", OPERATIONS), (found[ast.IfExp], "choices", CHOICES)):
        if count > most:
            raise InputError(f"{where}: {count:,} {what}; accepted: at most {most:,}")


def _longest(tokens: Iterable[tokenize.TokenInfo]) -> str:
    """Say where the longest statement is, if one is long."""
    counts: Counter[int] = Counter()
    first = None
    for token in tokens:
        if token.type not in (tokenize.NL, tokenize.COMMENT, tokenize.INDENT, tokenize.DEDENT):
            first = first or token.start[0]
            counts[first] += 1
            if token.type == tokenize.NEWLINE:
                first = None
    ((line, count),) = counts.most_common(1)
    return f", line {line}" if count > LEVELS else ""
