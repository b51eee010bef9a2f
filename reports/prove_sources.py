"""Add to records the hash of the code that ran, proven from the sources at the commit that they name.

Records made before gravbench hashed what runs (``code_sha256``, see ``harness/model/identity.py``) have a hash of the
bytes of files, ``source_sha256``. For each of them this takes the sources of its commit out of git, makes the old hash
with the harness of that commit, and only where it is the record's own, which proves that these are the sources, the new
hash of the same sources. A record whose commit is unknown, had changes, or gives another hash is marked stale:
``code_sha256`` is null.

For a file of bodies it likewise adds ``bodies_file_sha256`` where the bodies read from the file of that name in the
folder BODIES are those of the record, by ``bodies_sha256``; elsewhere the field stays absent.

Nothing else of a record changes, and records that have the fields already stay as they are. Run it in the root of a
checkout with its history, in the environment that gravbench is installed in:

    python reports/prove_sources.py --bodies ../data reports/h200/*/records.jsonl reports/h200/*/*/records.jsonl
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from gravbench.errors import InputError
from gravbench.model import identity, initial_conditions, python_code

ROOT = Path(__file__).resolve().parent.parent

# Runs with the harness of an old commit; says the old hash of each kind of case, and what the new one is made of.
PROBE = '''
import builtins, json, sys
from types import SimpleNamespace

from harness import environment, interaction as interactions
from harness.parts import Part
from harness.variant import CUDA_C_TOOLKITS, NUMBA, discover

variants = discover()


def python_source(computed):
    """What the generator of this commit has Python compile, in the form that Interaction.python_source has today."""
    texts = []
    def noted_compile(source, *rest):
        texts.append(source)
        return builtins.compile(source, *rest)
    def noted_exec(source, namespace):
        if isinstance(source, str):
            texts.append(source)
        builtins.exec(source, namespace)
    interactions.compile, interactions.exec = noted_compile, noted_exec
    computed.python(float, float)
    computed.python_add()
    widths = f"body_width, sums_width = {computed.body_width}, {computed.sums_width}"
    return "\\n".join([widths, *texts])


def stem(source, toolkit, computed):
    cuda = toolkit in CUDA_C_TOOLKITS and source.path.with_suffix(".cu").exists()
    return {
        "stem": str(source.path),
        "cuda": source.cuda_source(computed) if cuda else None,
        "generated": python_source(computed) if toolkit == NUMBA else None,
        "tolerance": computed.tolerance,
    }


def answer(variant, toolkit, interaction, timed):
    if variant not in variants:
        return None
    computed = interactions.find(interaction)
    case = SimpleNamespace(toolkit=toolkit, interaction=interaction, timed=timed)
    sources = [variants[variant], Part("integrate")] if timed == "step" else [variants[variant]]
    return {
        "old": environment.fingerprint(case, variants[variant], None).source_sha256,
        "stems": [stem(source, toolkit, computed) for source in sources],
    }


json.dump([answer(*kind) for kind in json.load(sys.stdin)], sys.stdout)
'''


class Kind(NamedTuple):
    """What of a record decides its sources, beside the commit."""

    variant: str
    toolkit: str
    interaction: str
    timed: str


class Proven(NamedTuple):
    """The old hash of the sources at a commit, and the new one of the same."""

    old: str
    new: str


Line = dict[str, Any]


def kind_of(record: Line) -> Kind:
    """Return what decides a record's sources."""
    return Kind(record["variant"], record["toolkit"], record.get("interaction", "gravity"), record["timed"])


def at_commit(commit: str, kinds: list[Kind]) -> dict[Kind, Proven]:
    """Make both hashes of each kind from the sources of a commit; nothing for a commit that git does not have."""
    archive = subprocess.run(["git", "archive", commit, "harness", "variants"], cwd=ROOT, capture_output=True)
    if archive.returncode:
        return {}
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as packed:
            packed.extractall(folder, filter="data")
        answers = _ask(Path(folder).resolve(), kinds)
        roots = (("variants", Path(folder).resolve() / "variants"),)
        return {
            kind: Proven(answer["old"], _new(answer["stems"], kind.toolkit, roots))
            for kind, answer in zip(kinds, answers, strict=True)
            if answer is not None
        }


def _ask(tree: Path, kinds: list[Kind]) -> list[Line | None]:
    variables = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PROBE],
        cwd=tree,
        env=variables,
        input=json.dumps(kinds),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[Line | None] = json.loads(done.stdout)
    return answers


def _new(stems: list[Line], toolkit: str, roots: tuple[tuple[str, Path], ...]) -> str:
    hashes = [
        identity.CodeParts(
            python_code.code(Path(stem["stem"]), toolkit, roots), stem["cuda"], stem["generated"], stem["tolerance"]
        ).sha256
        for stem in stems
    ]
    return hashes[0] if len(hashes) == 1 else identity.joined_sha256(*hashes)


def prove(records: Iterable[Line]) -> dict[str, dict[Kind, Proven]]:
    """Make the hashes of everything that records without a new hash were made from, by commit."""
    wanted: dict[str, dict[Kind, None]] = {}
    for record in records:
        if "code_sha256" not in record and record["commit"]:
            wanted.setdefault(record["commit"], {})[kind_of(record)] = None
    return {commit: at_commit(commit, list(kinds)) for commit, kinds in wanted.items()}


def code_of(record: Line, proven: dict[str, dict[Kind, Proven]]) -> str | None:
    """Return the new hash of what a record ran, or None where the old one does not prove it."""
    found = proven.get(record["commit"] or "", {}).get(kind_of(record))
    return found.new if found is not None and found.old == record["source_sha256"] else None


@lru_cache
def bodies_of(path: Path, n: int, seed: int, eps: float, subset: str, flat: bool) -> str | None:
    """Hash the bodies that a record of these values reads from a file."""
    try:
        bodies = initial_conditions.load(str(path), n, seed, eps, subset)
    except InputError:
        return None
    return (initial_conditions.flattened(bodies) if flat else bodies).sha256


def bodies_file_of(record: Line, folder: Path | None) -> str | None:
    """Return the hash of the file that a record's bodies are from, None where that is not proven or there is none."""
    if folder is None or record["bodies"] in initial_conditions.GENERATORS or not record["bodies_sha256"]:
        return None
    path = folder / record["bodies"]
    flat = record["axes"].get("dim") == 2
    read = bodies_of(path, record["n"], record["seed"], record["eps"], record["subset"], flat)
    return initial_conditions.file_sha256(str(path)) if read == record["bodies_sha256"] else None


def added(line: str, behind: str, name: str, value: str | None) -> str:
    """Put a field behind another one, and leave every other byte as it is."""
    field = f'"{behind}":{json.dumps(json.loads(line)[behind])},'
    if line.count(field) != 1:
        raise ValueError(f"no place for {name} in {line[:200]}")
    return line.replace(field, f'{field}"{name}":{json.dumps(value)},')


def main() -> None:
    """Read the command line, prove, and write the files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", type=Path, metavar="RECORDS")
    parser.add_argument("--bodies", type=Path, help="a folder with the files of bodies that records name")
    asked = parser.parse_args()
    lines = {path: path.read_text("utf-8").splitlines(keepends=True) for path in asked.files}
    proven = prove(json.loads(line) for own in lines.values() for line in own)
    counts: Counter[str] = Counter()
    for path, own in lines.items():
        for number, line in enumerate(own):
            record = json.loads(line)
            if "code_sha256" not in record:
                code = code_of(record, proven)
                counts["stale" if code is None else "proven"] += 1
                own[number] = added(own[number], "source_sha256", "code_sha256", code)
            if "bodies_file_sha256" not in record and (file := bodies_file_of(record, asked.bodies)):
                counts["with proven file of bodies"] += 1
                own[number] = added(own[number], "bodies_sha256", "bodies_file_sha256", file)
        path.write_text("".join(own), "utf-8")
    sys.stdout.write(", ".join(f"{number} {what}" for what, number in counts.items()) + "\n")


if __name__ == "__main__":
    main()
