"""Write every block of README and docs/ that a command prints, and the picture of README, again from the records.

``python docs/hooks/refresh.py`` after records below reports/ have changed. A block names its command in its first line:
``<!-- ladder: gravbench report h200/ladder --markdown -->``.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BLOCK = re.compile(r"(<!-- (ladder|printed): (.*?) -->\n).*?(<!-- end of \2 -->)", re.DOTALL)
STORY = "python -m gravbench.report.story"
FIGURES = "docs/figures"


def printed(command: str) -> str:
    """Run a command of gravbench in the root of the checkout, and return what it prints."""
    words = shlex.split(command)
    module = ["-m", "gravbench", *words[1:]] if words[0] == "gravbench" else words[1:]
    return subprocess.run([sys.executable, *module], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def refreshed(text: str) -> str:
    """Return a document with all of its blocks printed anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{printed(found[3]).strip()}\n\n{found[4]}", text)


def main() -> None:
    """Rewrite the documents whose blocks have changed, and draw the picture of each story."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        was = path.read_text("utf-8")
        text = refreshed(was)
        for _, _, command, _ in BLOCK.findall(text):
            if command.startswith(STORY):
                printed(f"{command} --figures {FIGURES}")
        if text != was:
            path.write_text(text, "utf-8")
            sys.stdout.write(f"{path.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
