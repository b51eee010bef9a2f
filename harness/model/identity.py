"""What identifies a measurement is what ran: the hash of the code of a kernel, of its launch and of its interaction.

The hash is of what is compiled and of the Python around it, not of files:

- For CUDA C, the tokens of the joined text (headers, generated interaction, stem), without comments, layout and what
  ``PLAIN`` selects, which no toolkit defines.
- For Numba and numba-cuda-mlir, the interaction as it is generated, which their kernels compile.
- For WGSL, likewise: the generated interaction and the stem.
- For another language with files of its own, such as Mojo, the lines of the stem's, without those that are comments.
- For every toolkit, what it runs of the stem's Python and of the modules that this imports; see ``python_code``.

Flags, versions and the device are not in it: they stand beside it in a ``Fingerprint``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gravbench.model import python_code

PLAIN = "PLAIN"
"""What selects the form of CUDA C for readers, where it stands beside the one that runs."""
_NOT_CODE = re.compile(
    r"""
    (?P<kept>
        \b(?:u8|[uUL])?R"(?P<mark>[^()\\\s]*)\(.*?\)(?P=mark)"
        | "(?:\\.|[^"\\\n])*" | \b\d(?:'?[\w.])* | '(?:\\.|[^'\\\n])*'
    )
    | //[^\n]* | /\*.*?\*/
    """,
    re.VERBOSE | re.DOTALL,
)
_TOKEN = re.compile(
    r"""
    "(?:\\.|[^"\\])*" | \.?\d(?:[eEpP][+-]|'?[\w.])* | '(?:\\.|[^'\\])*' | \w+
    | <<<|>>>|<<=|>>=|->\*|\.\.\.|[-+*/%&|^=!<>]=|\+\+|--|&&|\|\||<<|>>|->|::|\#\#|\S
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class CodeParts:
    """What a toolkit runs of a stem, as texts.

    ``python`` is what it runs of the stem's Python (``python_code.code``), ``joined`` the joined text of CUDA C or WGSL
    and ``generated`` the Python generated from the interaction, each None where the toolkit compiles none.
    ``tolerance`` is the factor of the interaction on the errors that count as right, by which a result was judged.
    ``native`` is the text of the stem in the toolkit's own language, in which a comment begins with ``#``; None where
    it has none.
    """

    python: str
    joined: str | None
    generated: str | None
    tolerance: float
    native: str | None = None

    @property
    def sha256(self) -> str:
        """The hash of what runs: of tokens, not of comments and layout."""
        return joined_sha256(
            self.python,
            "" if self.joined is None else "\n".join(cuda_tokens(self.joined)),
            "" if self.generated is None else python_code.normal(self.generated),
            repr(self.tolerance),
            *([] if self.native is None else ["\n".join(code_lines(self.native))]),
        )


def without_comments(text: str) -> str:
    """Leave out the comments of CUDA C; one over several lines goes on as a line does behind a backslash."""

    def left(match: re.Match[str]) -> str:
        comment = match[0]
        return match["kept"] or " " + "\\\n" * comment.count("\n") + "\\" * comment.endswith("\\")

    return _NOT_CODE.sub(left, text)


def cuda_lines(text: str) -> list[str]:
    """List the lines of CUDA C that are neither empty nor comments."""
    plain = _NOT_CODE.sub(lambda match: match["kept"] or " ", text)
    return [line.rstrip() for line in plain.splitlines() if line.strip()]


def code_lines(text: str) -> list[str]:
    """List the lines of a text that are neither empty nor comments from ``#``, without the blanks at their ends."""
    return [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def joined_sha256(*parts: str) -> str:
    """Hash several texts, so that none can take over the end of the one before it."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def cuda_tokens(text: str) -> Iterator[str]:
    """Split CUDA C into what its compiler sees; a preprocessor's line, whose layout may matter, stays together."""
    spliced = text.replace("\\\n", "")
    for line in _run(_NOT_CODE.sub(lambda match: match["kept"] or " ", spliced).splitlines()):
        words = line.split()
        if not words or not words[0].startswith("#"):
            yield from _TOKEN.findall(line)
        elif words[0] != "#line":
            yield " ".join(words)


def _run(lines: Iterable[str]) -> Iterator[str]:
    """Leave out what stands from ``#ifdef PLAIN`` to its ``#else`` or ``#endif``, and these lines themselves."""
    depth, plain = 0, False  # of conditions from that of PLAIN on; whether its own lines come
    for line in lines:
        words = [*line.split(), "", ""]
        if depth == 0 and words[:2] == ["#ifdef", PLAIN]:
            depth, plain = 1, True
        elif depth == 1 and words[0] == "#else":
            plain = False
        elif depth == 1 and words[0] == "#endif":
            depth, plain = 0, False
        else:
            if depth and words[0] in ("#if", "#ifdef", "#ifndef", "#endif"):
                depth += -1 if words[0] == "#endif" else 1
            if not plain:
                yield line
