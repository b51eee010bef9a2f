"""The notebook of examples/ as a page: its text and its code."""

from __future__ import annotations

import json
from pathlib import Path

PATH = Path(__file__).resolve().parents[2] / "examples" / "first_steps.ipynb"
SAID = """
!!! tip "This page is a notebook"
    `pip install jupyterlab`, then `jupyter lab examples/first_steps.ipynb`. It needs no GPU and less than a minute.

"""


def page() -> str:
    """Return the page in Markdown."""
    first, *others = [cell(one) for one in json.loads(PATH.read_text("utf-8"))["cells"]]
    return "\n\n".join([first, SAID, *others]) + "\n"


def cell(one: dict[str, object]) -> str:
    """Return one cell."""
    source = one["source"]
    text = "".join(source) if isinstance(source, list) else str(source)
    return text if one["cell_type"] == "markdown" else f"```python\n{text}\n```"
