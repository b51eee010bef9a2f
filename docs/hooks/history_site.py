"""The site that asv makes of the committed results: what it shows, why it may be lacking, and its results."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / ".asv" / "results"
RUNS = ROOT / "reports" / "h200"
FOLDER = "history"
"""Of the documentation's site, in which asv's is."""


def commits() -> list[str]:
    """Return the commits that the committed results are of."""
    files = [path for path in RESULTS.glob("*/*.json") if path.name != "machine.json"]
    return sorted({json.loads(path.read_text("utf-8"))["commit_hash"] for path in files})


def obstacle() -> str:
    """Say why asv cannot make its site here; empty where it can."""
    if importlib.util.find_spec("asv") is None:
        return "asv is not installed (pip install 'gravbench[docs]')"
    lacking = [commit for commit in commits() if _git("merge-base", "--is-ancestor", commit, "HEAD")]
    if lacking:
        return (
            f"this copy of the repository lacks {len(lacking)} of its {len(commits())} commits (git fetch --unshallow)"
        )
    return ""


def _git(*words: str) -> int:
    """Return the exit code of a command of git."""
    try:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, check=False).returncode
    except OSError:
        return 1


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
    runs = sorted(str(path.parent.relative_to(ROOT)) for path in RUNS.glob("*/records.jsonl"))
    return " ".join(["gravbench history export --repeated", *runs, "--to", str(to)])
