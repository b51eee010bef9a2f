"""The pages of the course: the texts that are in the package, and their list."""

from __future__ import annotations

from gravbench.learning.exercises import Exercise, exercises
from gravbench.learning.times import measured
from gravbench.report.numbers import number

LIVE_PAGE = "live.html"
"""The page of the site that runs the ladder in a browser, and has exercises of the course in WGSL."""
IN_BROWSER = """
## In the browser

[Do it in WGSL, in this browser](../{page}#exercises/{name}): on a GPU of any maker, and without installing anything.
"""
BEGIN = """
## Begin

```sh
gravbench learn start {name}
gravbench learn check {name}.cu
```

`gravbench learn hint {name}` opens a hint, {hints} of them one after another. After a first check,
`gravbench learn show {name} --solution` prints our solution.
"""


def pages() -> dict[str, str]:
    """Return the Markdown of each exercise by the path of its page."""
    return {f"course/{each.name}.md": page(each) for each in exercises()}


def page(of_exercise: Exercise) -> str:
    """Return the page of an exercise."""
    text = of_exercise.page
    if of_exercise.in_numba:
        text += f"\n{of_exercise.in_numba}"
    text += BEGIN.format(name=of_exercise.name, hints=len(of_exercise.about.hints))
    if of_exercise.in_wgsl:
        text += IN_BROWSER.format(page=LIVE_PAGE, name=of_exercise.name)
    return text


def table() -> str:
    """Return the list of all exercises, which leads to their pages."""
    rows = [
        f"| {each.number} | [{each.name}]({each.name}.md) | {each.about.title} | `{each.about.rung}` "
        f"| {in_browser(each)} |"
        for each in exercises()
    ]
    return "\n".join(["| | exercise | | rung | in the browser |", "| ---: | --- | --- | --- | --- |", *rows])


def table_of_times() -> str:
    """Return how many times as long as the rung the kernels of each exercise take."""
    rows = []
    for each in exercises():
        times = each.times
        solution, skeleton = (number(times.ratios.get(name)) for name in ("solution", "skeleton"))
        right, unnoticed = (
            ", ".join(f"`{name}` {number(times.ratios[name])}" for name in kernels)
            for kernels in (times.right, times.unnoticed)
        )
        rows.append(f"| {each.name} | {number(times.rung)} | {solution} | {skeleton} | {right} | {unnoticed} |")
    head = f"{measured().device}, {measured().n:,} bodies | rung, ms | solution | skeleton | right, not as good | wrong"
    return "\n".join([f"| {head} |", "| --- | ---: | ---: | ---: | --- | --- |", *rows])


def in_browser(of_exercise: Exercise) -> str:
    """Return the link to an exercise in the browser, empty where it is not there."""
    return f"[in WGSL](../{LIVE_PAGE}#exercises/{of_exercise.name})" if of_exercise.in_wgsl else ""
