"""The commits of the repository here: when each was made, and which one has the code that a record was measured with.

A record that was measured with changes names the commit that they were made to. Most changes are committed soon
afterwards. The commit that has them is found by the hash of the code that ran, which is made of the files of the
folder ``variants`` as git has them: the working tree is neither read nor changed, and nothing of a commit is executed.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tempfile
from collections.abc import Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import NamedTuple

from gravbench.errors import InputError
from gravbench.model import sources
from gravbench.model.record import Record

CHANGED = "+changes"
"""Ends the commit of a record that was measured with sources which differed from it."""
TREE = "variants"
MINUTE = 60


class _Kind(NamedTuple):
    """What of a record decides its code, beside the commit."""

    variant: str
    toolkit: str
    interaction: str
    timed: str


class Commits:
    """The commits of the repository that the working directory is in; leave it as a context to remove what it unpacked.

    Raises:
        InputError: the working directory is in no git repository.
    """

    def __init__(self) -> None:
        """Read when every commit was made."""
        self.root = Path()
        try:
            self.root = Path(self._git("rev-parse", "--show-toplevel").decode().strip())
            lines = self._git("log", "--all", "--format=%H %ct").decode().splitlines()
        except InputError:
            raise InputError(
                f"{Path.cwd()}: there is no git history here; export from the clone of gravbench in which asv publishes"
            ) from None
        self.dates = {commit: int(seconds) * 1000 for commit, seconds in map(str.split, lines)}
        """In asv's milliseconds, of every commit that a branch or tag has: asv orders results by it."""
        self._unpacked: dict[str, Path] = {}
        self._known: dict[tuple[str, _Kind], str | None] = {}

    def __enter__(self) -> Commits:
        """Begin to use it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Remove what was unpacked."""
        self._folder.cleanup()

    def with_code_of(self, record: Record) -> str | None:
        """Return the first commit whose code is that of a record which was measured with changes; None if none has it.

        That is the commit that the record names, or else one that has it as an ancestor: the first of those that lead
        to HEAD by first parents, because asv shows these. The commit of the record has to be in ``dates``.
        """
        if record.code_sha256 is None:
            return None
        kind = _Kind(record.variant, record.toolkit, record.interaction, record.timed)
        for commit, tree in self._trees((record.commit or "").removesuffix(CHANGED)):
            if (tree, kind) not in self._known:
                self._known[tree, kind] = sources.code_sha256_of_tree(record, self._unpack(tree))
            if self._known[tree, kind] == record.code_sha256:
                return commit
        return None

    @lru_cache  # noqa: B019 - as long as an export
    def _trees(self, commit: str) -> Sequence[tuple[str, str]]:
        """Return the commits that may have what was changed at ``commit``, each with the name of its tree."""
        later = set(self._git("rev-list", "--ancestry-path", f"{commit}..HEAD").decode().split())
        line = self._git("rev-list", "--first-parent", "--reverse", "HEAD").decode().split()
        commits = [commit, *(candidate for candidate in line if candidate in later)]
        trees = "".join(f"{candidate}:{TREE}\n" for candidate in commits).encode()
        answers = self._git("cat-file", "--batch-check=%(objectname) %(objecttype)", given=trees).decode().splitlines()
        pairs = ((candidate, *answer.split()) for candidate, answer in zip(commits, answers, strict=True))
        return [(candidate, name) for candidate, name, kind, *_ in pairs if kind == "tree"]

    @cached_property
    def _folder(self) -> tempfile.TemporaryDirectory[str]:
        return tempfile.TemporaryDirectory(prefix="gravbench-commits-", ignore_cleanup_errors=True)

    def _unpack(self, tree: str) -> Path:
        if tree not in self._unpacked:
            path = Path(self._folder.name).resolve() / tree
            with tarfile.open(fileobj=io.BytesIO(self._git("archive", tree))) as packed:
                packed.extractall(path, filter="data")
            self._unpacked[tree] = path
        return self._unpacked[tree]

    def _git(self, *words: str, given: bytes | None = None) -> bytes:
        try:
            return subprocess.run(
                ["git", "-C", str(self.root), *words], input=given, capture_output=True, timeout=MINUTE, check=True
            ).stdout
        except (OSError, subprocess.SubprocessError) as error:
            said = (getattr(error, "stderr", None) or str(error).encode()).decode(errors="replace").strip()
            raise InputError(f"{self.root}: git {words[0]} failed: {said}; accepted: a whole clone") from None
