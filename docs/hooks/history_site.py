"""The site that asv makes of the committed results: what it shows, why it may be lacking, and its results."""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path

from gravbench.asv import results
from gravbench.report.numbers import number

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".asv" / "results"
RUNS = "reports/h[12]00/*/records.jsonl"
FOLDER = "history"
"""Of the documentation's site, in which asv's is."""

SENTINELS = "sentinels.Speed.track_picoseconds_per_interaction"
"""What the suite of asv's own measures, and the records do not have."""
STATES = {
    "78bc4b5f": "release 1.0.0",
    "20b3a7bc": "one uncertainty everywhere, and anchors for each kind of work",
    "1de9df4c": "one session per device measures in order, and kernels are built ahead",
    "34c497f5": "walks of trees are bounded, and `force` checks what it promises",
    "b18f95ba": "WebGPU",
    "44bb25f3": "the judge, the course and shared runs; kernels are divided into functions of a screen",
}
"""Commits to measure: the state after each larger piece of work. Of another commit its subject says what it is."""


def commits() -> list[str]:
    """Return the commits that the committed results are of."""
    files = [path for path in RESULTS.glob("*/*.json") if path.name != "machine.json"]
    return sorted({json.loads(path.read_text("utf-8"))["commit_hash"] for path in files})


def obstacle() -> str:
    """Say why asv cannot make its site here; empty where it can."""
    if importlib.util.find_spec("asv") is None:
        return "asv is not installed (pip install 'gravbench[docs]')"
    lacking = [commit for commit in commits() if _git("merge-base", "--is-ancestor", commit, "HEAD")[0]]
    if lacking:
        return (
            f"this copy of the repository lacks {len(lacking)} of its {len(commits())} commits (git fetch --unshallow)"
        )
    return ""


def _git(*words: str) -> tuple[int, str]:
    """Return the exit code of a command of git, and what it prints."""
    try:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False, text=True)
    except OSError:
        return 1, ""
    return done.returncode, done.stdout.strip()


def sentence(up: str) -> str:
    """Lead to asv's site from a page, with the number of its commits, or say why it is not there."""
    if why := obstacle():
        return f"The history of the records of this repository is not part of this build: {why}."
    link = f'<a class="md-button md-button--primary" href="{up}{FOLDER}/index.html">The history of the records</a>'
    return f"{link}\n\nIt shows {len(commits())} commits."


def publish(folder: Path) -> str:
    """Let asv write its site into a folder of the documentation's; return why it did not, empty where it did."""
    if why := obstacle():
        return why
    words = [sys.executable, "-m", "asv", "publish", "--no-pull", "--html-dir", str(folder / FOLDER)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"asv publish failed: {(done.stdout + done.stderr).strip()[-500:]}"


def export_command(to: Path) -> str:
    """Return the command that makes the committed results of the records."""
    runs = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob(RUNS))
    return " ".join(["gravbench history export --repeated", *runs, "--to", str(to)])


def sentinels() -> str:
    """Show the times of the sentinels that asv measured; one table for each environment, one column for each commit."""
    environments = defaultdict(list)
    for path in RESULTS.glob("*/*.json"):
        content = {} if path.name == results.MACHINE else results.read(path)
        if SENTINELS in content.get("results", {}):
            environments[json.dumps(content["params"], sort_keys=True)].append(content)
    tables = [_table(sorted(files, key=lambda file: file["date"])) for _, files in sorted(environments.items())]
    return "\n\n".join(tables) or "No GPU has measured the sentinels yet."


def _table(files: list[results.Content]) -> str:
    """Show what one environment measured, the oldest commit first."""
    short = [f"`{file['commit_hash'][:8]}`" for file in files]
    states = [f"- {commit}, {_state(file)}" for commit, file in zip(short, files, strict=True)]
    rows = {"Picoseconds per interaction": short, "---": ["--:"] * len(files)}
    for column, file in enumerate(files):
        grid = results.Grid.of_row(file["result_columns"], file["results"][SENTINELS])
        for (case,), cell in grid.cells.items():
            if not math.isnan(cell["result"]):
                rows.setdefault(case.strip("'"), [""] * len(files))[column] = number(cell["result"])
    environment = "; ".join(f"{name}: {value}" for name, value in files[-1]["params"].items() if value)
    table = [f"| {' | '.join([case, *cells])} |" for case, cells in rows.items()]
    return "\n".join([f"{environment}.", "", *states, "", *table])


def _state(file: results.Content) -> str:
    """Return the day of a commit, and what it is."""
    commit = file["commit_hash"]
    day = datetime.fromtimestamp(file["date"] / 1000, UTC).date()
    return f"{day}: {STATES.get(commit[:8]) or _git('show', '--no-patch', '--format=%s', commit)[1]}"
