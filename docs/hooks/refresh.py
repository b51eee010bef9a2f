"""Write again what README, docs/ and asv show of records: tables, blocks, README's picture, figures, the history.

``python docs/hooks/refresh.py`` after records below reports/ have changed. A block names its command in its first line:
``<!-- ladder: gravbench report h200/ladder --markdown -->``. Its output is Markdown, or text in a block of code.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(
    r"(<!-- (ladder|printed|languages|step|seeds): (.*?) -->\n)(```text\n)?.*?(<!-- end of \2 -->)", re.DOTALL
)
STORY = "python -m gravbench.report.story"
FIGURES = "docs/figures"
CHARTS = {"ladder": "h200/ladder", "arena": "h200/arena"}
"""Kinds of figures, and the run that each is of: they are in the folder figures beside it."""
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}


def printed(command: str) -> str:
    """Run a command of gravbench in the root of the checkout, and return what it prints, without empty ends.

    Raises:
        CalledProcessError: the command fails.
    """
    words = shlex.split(command)
    module = ["-m", "gravbench", *words[1:]] if words[0] == "gravbench" else words[1:]
    done = subprocess.run(
        [sys.executable, *module], cwd=ROOT, check=True, capture_output=True, text=True, env=ENVIRONMENT
    )
    return "\n".join(line.rstrip() for line in done.stdout.strip("\n").splitlines())


def block(found: re.Match[str]) -> str:
    """Return a block printed anew; as it was, with a sentence to the terminal, where its command fails."""
    begin, _, command, fence, end = found.groups()
    try:
        text = printed(command)
    except subprocess.CalledProcessError as error:
        sys.stderr.write(f"{command}: left as it was: {error.stderr.strip()}\n")
        return found[0]
    return f"{begin}{fence}{text}\n```\n{end}" if fence else f"{begin}\n{text}\n\n{end}"


def charts() -> None:
    """Draw the figures that the folders beside the runs have again, each from its run."""
    for kind, run in CHARTS.items():
        with tempfile.TemporaryDirectory() as drawn:
            printed(f"gravbench report {run} --figures {drawn}")
            for path in (ROOT / "reports" / run).parent.glob(f"figures/{kind}-*.svg"):
                path.write_bytes((Path(drawn) / path.name).read_bytes())


def history() -> None:
    """Export the records again to the results that asv's site is made of; what asv itself measured stays."""
    import history_site  # found beside this file only where it runs as a script

    for path in history_site.RESULTS.glob("*/*-gravbench-*.json"):
        path.unlink()
    for machine in history_site.RESULTS.glob("*/machine.json"):
        # Nothing is left that asv measured there: the export describes the machine anew.
        if list(machine.parent.iterdir()) == [machine]:
            machine.unlink()
    printed(history_site.export_command(history_site.RESULTS))


def main() -> None:
    """Rewrite the documents whose blocks have changed, export the history, and draw the pictures and figures."""
    history()
    charts()
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        was = path.read_text("utf-8")
        for found in BLOCK.finditer(was):
            if found[3].startswith(STORY):
                printed(f"{found[3]} --figures {FIGURES}")
        text = BLOCK.sub(block, was)
        if text != was:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
