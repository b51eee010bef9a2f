"""The reference of variants: what each declares."""

from __future__ import annotations

from gravbench.model.interaction_files import find, packaged
from gravbench.model.variant import Variant, discover

HEAD = """# Variants

Generated from the code; `gravbench list NAME` prints the same. Each entry says what the variant changes compared with
its parent, and which values its axes accept. Axes have the names of the literature: `p` threads per block and
bodies per tile, `q` threads per body, `unroll`, `theta` the opening angle, `r` bodies per thread.

"""


def page() -> str:
    """Return the page in Markdown."""
    lines = [HEAD + "\n".join(section(one) for one in discover().values())]
    lines += ["## Interactions", "", "| interaction | FLOPs |", "| --- | ---: |"]
    lines += [f"| `{name}` | {find(name).flops} |" for name in packaged()]
    return "\n".join(lines) + "\n"


def section(one: Variant) -> str:
    """Return what one variant declares."""
    facts = {
        "parent": f"[`{one.parent}`](#{one.parent})" if one.parent else "none; it is the first of its ladder",
        "source": one.source,
        "toolkits": ", ".join(one.toolkits),
        "number types": ", ".join(one.dtypes),
        "valid combinations": f"`{one.when}`" if one.when else "",
        "loads from global memory per body": f"`{one.loads}`" if one.loads else "",
        "approximates": one.approximates or "",
        "masses": "zero or more" if one.positive_masses else "",
        "file": f"`variants/{one.path.parent.name}/{one.path.name}`",
    }
    lines = [f"## {one.name} {{ #{one.name} }}", "", one.summary, ""]
    lines += [one.explanation.removeprefix(one.summary).strip(), ""] if one.explanation else []
    lines += ["| | |", "| --- | --- |", *(f"| {name} | {_cell(said)} |" for name, said in facts.items() if said), ""]
    if one.axes:
        lines += ["| axis | values | default |", "| --- | --- | --- |"]
        for axis, values in one.axes.items():
            others = one.other_values(axis)
            known = " ".join(f"`{value}`" for value in values) + (f"; also {others}" if others else "")
            lines.append(f"| `{axis}` | {_cell(known)} | `{one.defaults[axis]}` |")
        lines.append("")
    return "\n".join(lines)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
