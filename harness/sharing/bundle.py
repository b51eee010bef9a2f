"""A bundle: the files of a shared run in one archive, read so that nothing in it can do more than be wrong."""

from __future__ import annotations

import io
import json
import re
import stat
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from gravbench.errors import InputError, shortened
from gravbench.model.identity import CodeParts
from gravbench.model.limits import Count, Hash, Name, Number, Prose, Text, without_controls
from gravbench.model.merged import Source, Start
from gravbench.model.record import Record
from gravbench.model.regular import read_bytes, write_whole
from gravbench.model.runs import ENVIRONMENT, RECORDS
from gravbench.model.shard import parse
from gravbench.model.sources import joined_code_sha256
from gravbench.sharing import merkle

FORMAT: Literal[1] = 1
FACTS = "bundle.json"
TREE = "tree.json"
CRATE = "ro-crate-metadata.json"
SIGNATURE = "signature.sigstore.json"
OUTSIDE = (TREE, SIGNATURE)
"""Files that the tree of hashes does not have: itself, and who signed it."""
NEEDED = (RECORDS, ENVIRONMENT, FACTS, TREE, CRATE)
ENDING = ".gravbench.zip"

MOST_BYTES = 256 << 20
"""Bytes of an archive, and of all files in it together."""
MOST_TEXT = 1 << 20
"""Bytes of a text of code; the longest is a tenth."""
MOST_FILES = 5_000
MOST_RATIO = 500
"""Times that a file may be larger than what it is compressed to; records are some 10 times."""
NAME = re.compile(r"[A-Za-z0-9_][\w.+-]*(?:/[A-Za-z0-9_][\w.+-]*){0,3}", re.ASCII)
"""Of a file in a bundle: no folder above, no absolute path, nothing that a terminal takes otherwise."""
LONGEST_NAME = 200
MOMENT = (1980, 1, 1, 0, 0, 0)
"""Of every file of an archive: the same run gives the same bytes."""

FileName = Annotated[str, Field(max_length=LONGEST_NAME)]


class Shared(BaseModel, frozen=True):
    """What ``bundle.json`` is made of; a field that is not known makes it invalid."""

    model_config = ConfigDict(extra="forbid")


class StemTexts(Shared, frozen=True):
    """The files with the texts that a stem's code is made of (``gravbench.model.identity.CodeParts``)."""

    python: FileName
    joined: FileName | None = None
    generated: FileName | None = None
    native: FileName | None = None
    tolerance: Number


class Code(Shared, frozen=True):
    """The code that ran: its hash, and the texts of which it is the hash; a step has those of the integrator too."""

    code_sha256: Hash
    stems: Annotated[list[StemTexts], Field(min_length=1, max_length=2)]


class KernelFact(Shared, frozen=True):
    """A kernel of CUDA C as it was compiled for the bundle: from which text, by what, and the hash of the result.

    ``line`` is that of the first record that asks for it.
    """

    line: Count
    source: FileName
    kernel: Name
    constants: Annotated[dict[Name, int], Field(max_length=200)]
    dtype: Literal["float32", "float64"]
    architecture: Annotated[str, Field(pattern=r"^sm_\d{2,3}[af]?$")]
    compiler: Text
    cubin_sha256: Hash

    @property
    def label(self) -> str:
        """What names it in a finding."""
        return f"{self.source}: {self.kernel} for {self.architecture}"


class Facts(Shared, frozen=True):
    """What a bundle says of itself: how many records of each status, how many planned results are lacking, its code."""

    format: Literal[1]
    run: Text
    harness_version: Text
    records: dict[Name, Count]
    lacking: int
    codes: Annotated[list[Code], Field(max_length=MOST_FILES)]
    kernels: Annotated[list[KernelFact], Field(max_length=100_000)]
    without_code: Count
    not_compiled: dict[Prose, Count] = Field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bundle:
    """What was read: the files by their names, and what is in them; ``mistakes`` says what is not as it has to be."""

    name: str
    files: Mapping[str, bytes]
    records: Mapping[int, Record]
    entries: list[dict[str, Any]]
    starts: list[Start]
    facts: Facts | None
    mistakes: list[str] = field(default_factory=list)

    @property
    def run(self) -> Source:
        """The run, as ``merge`` checks one."""
        shards = {parse(start.shard) for start in self.starts if start.shard}
        return Source(Path(self.name), self.records, self.entries, self.starts, frozenset(shards))

    @property
    def codes(self) -> Sequence[Code]:
        """The code that ran, as far as the bundle has it."""
        return self.facts.codes if self.facts else []

    @property
    def kernels(self) -> Sequence[KernelFact]:
        """The kernels that were compiled for it."""
        return self.facts.kernels if self.facts else []

    def text(self, name: str | None) -> str | None:
        """Return the text of a file; None without a name.

        Raises:
            KeyError: there is no such file.
        """
        return None if name is None else self.files[name].decode(errors="replace")

    def sha256_of(self, code: Code) -> str:
        """Compute the hash of code from its texts.

        Raises:
            KeyError: a file is not there.
            SyntaxError: what should be Python is none.
        """
        return joined_code_sha256([self._parts(stem).sha256 for stem in code.stems])

    def _parts(self, stem: StemTexts) -> CodeParts:
        python = self.text(stem.python) or ""
        return CodeParts(
            python, self.text(stem.joined), self.text(stem.generated), stem.tolerance, self.text(stem.native)
        )


def packed(files: Mapping[str, bytes]) -> bytes:
    """Return the archive of files; the same files give the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, MOMENT)
            info.compress_type, info.external_attr, info.create_system = zipfile.ZIP_DEFLATED, 0o644 << 16, 3
            archive.writestr(info, files[name])
    return out.getvalue()


def digests_of(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the SHA-256 of every file below the root, by its name."""
    return {name: merkle.digest(content) for name, content in sorted(files.items()) if name not in OUTSIDE}


def with_tree(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """Add the tree of hashes over files, in place of one that is there."""
    digests = digests_of(files)
    tree = {"root": merkle.root(digests), "files": digests}
    return {**files, TREE: json.dumps(tree, indent=1).encode() + b"\n"}


def write(path: Path, files: Mapping[str, bytes]) -> str:
    """Write a bundle at once, and return its root.

    Raises:
        InputError: it cannot be written.
    """
    whole = with_tree(files)
    write_whole(path, packed(whole))
    return str(json.loads(whole[TREE])["root"])


def unpacked(path: Path) -> dict[str, bytes]:
    """Read the files of an archive into memory.

    Raises:
        InputError: it is no archive, is too large, or has names, links or sizes that no bundle has.
    """
    try:
        if path.stat().st_size > MOST_BYTES:
            raise InputError(f"{path}: more than {MOST_BYTES >> 20} MiB; accepted: a file of `gravbench share`")
        content = read_bytes(path)
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if mistake := _refused(entries):
                raise InputError(f"{path}: {mistake}; accepted: a file of `gravbench share`")
            return {entry.filename: _content(archive, entry, path) for entry in entries}
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; gravbench share RUN --out FILE writes one") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: is no readable ZIP archive; accepted: a file of `gravbench share`") from error


def _refused(entries: list[zipfile.ZipInfo]) -> str | None:
    """Say what no bundle has; None where all is as it can be."""
    if len(entries) > MOST_FILES:
        return f"{len(entries):,} files, more than {MOST_FILES:,}"
    names = [entry.filename for entry in entries]
    for entry in entries:
        name, kind = shortened(entry.filename), stat.S_IFMT(entry.external_attr >> 16)
        if not NAME.fullmatch(entry.filename) or ".." in entry.filename or len(entry.filename) > LONGEST_NAME:
            return f"a file of the name {name}"
        if kind not in (0, stat.S_IFREG):
            return f"{name} is a link or no regular file"
        if entry.flag_bits & 1:
            return f"{name} is encrypted"
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            return f"{name} is compressed in another way than bundles are"
        if name.startswith("code/") and entry.file_size > MOST_TEXT:
            return f"{name} has {entry.file_size:,} bytes, more than {MOST_TEXT:,}"
        if entry.file_size > MOST_RATIO * max(entry.compress_size, 100):
            return f"{name} is {entry.file_size:,} bytes made of {entry.compress_size:,}"
    if len(set(names)) < len(names):
        return "two files of one name"
    if sum(entry.file_size for entry in entries) > MOST_BYTES:
        return f"more than {MOST_BYTES >> 20} MiB of files"
    if lacking := [name for name in NEEDED if name not in names]:
        return f"no {lacking[0]} in it"
    return None


def _content(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, path: Path) -> bytes:
    """Read a file of an archive, and no more of it than it says that it has."""
    with archive.open(entry) as file:
        content = file.read(entry.file_size + 1)
    if len(content) != entry.file_size:
        raise InputError(f"{path}: {entry.filename} is not as long as it says; accepted: a file of `gravbench share`")
    return content


def read(path: Path) -> Bundle:
    """Read a bundle; what its files hold is not judged, but read as what it has to be.

    Raises:
        InputError: as ``unpacked``.
    """
    files = unpacked(path)
    mistakes: list[str] = []
    records = {}
    for number, line in enumerate(files[RECORDS].removesuffix(b"\n").split(b"\n"), 1):
        try:
            records[number] = Record.of_line(line)
        except ValueError as error:
            mistakes.append(f"{RECORDS}, line {number}: {_why(error)}")
    entries, starts, facts = _entries(files[ENVIRONMENT], mistakes), [], None
    try:
        starts = [Start.model_validate(entry) for entry in entries]
    except ValueError as error:
        mistakes.append(f"{ENVIRONMENT}: {_why(error)}")
    try:
        facts = Facts.model_validate_json(files[FACTS])
    except ValueError as error:
        mistakes.append(f"{FACTS}: {_why(error)}")
    return Bundle(path.name, files, records, entries, starts, facts, mistakes)


def _entries(content: bytes, mistakes: list[str]) -> list[dict[str, Any]]:
    entries = parsed(content)
    if isinstance(entries, list) and entries and all(isinstance(entry, dict) for entry in entries):
        return [without_controls(entry) for entry in entries]
    mistakes.append(f"{ENVIRONMENT}: no list with one object per start of the run")
    return []


def parsed(content: bytes) -> Any:
    """Return what a text of JSON holds; None where it is none."""
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _why(error: ValueError) -> str:
    if not isinstance(error, ValidationError):
        return shortened(str(error))
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(str(part)[:50] for part in first['loc'][:4])}: {first['msg']}"


def root_of(bundle: Bundle) -> str:
    """Return the root of the files that a bundle has, whatever it says."""
    return merkle.root(digests_of(bundle.files))
