"""The pages of the course: the texts that are in the package, and their list."""

from __future__ import annotations

from gravbench.learning.exercises import Exercise, exercises

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
    in_numba = f"\n{of_exercise.in_numba}" if of_exercise.in_numba else ""
    return of_exercise.page + in_numba + BEGIN.format(name=of_exercise.name, hints=len(of_exercise.about.hints))


def table() -> str:
    """Return the list of all exercises, which leads to their pages."""
    rows = [
        f"| {each.number} | [{each.name}]({each.name}.md) | {each.about.title} | `{each.about.rung}` |"
        for each in exercises()
    ]
    return "\n".join(["| | exercise | | rung |", "| ---: | --- | --- | --- |", *rows])
