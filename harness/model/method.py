"""The number of the method: what is timed, how it is sampled, and how a result is judged.

A kernel is identified by the hash of its code (``gravbench.model.identity``), the method by a number that a person
raises. Raise it when the same kernel on the same device could get another time, error or verdict than before: what
lies between the two readings of a clock, the warm-up, the size of a batch, when sampling stops, which bodies a
result is judged with, the reference, the tolerance. Leave it where only words, names, speed of the harness or the
order of cases change. ``tests/test_method.py`` fails when code that times or judges changes, so that each change is
decided on.

Results of another method are not reused, and reports mark them.

| method | what changed |
| --- | --- |
| none | Records without a number, up to 1.0.0. What was timed and judged changed between them; their commits tell. |
| 1 | The first with a number. |
| 2 | One session per device measures its cases one after another, and nothing else of the run computes meanwhile. A \
device that has measured within two seconds is warm, also for a new session. |
| 3 | After it was timed, a result is judged in launches in a row, also over other numbers than NaN, and may take no \
longer once all bodies have moved a little. |
"""

METHOD = 3


def method_words(number: int | None) -> str:
    """Name a method: ``method 1``, or ``no method number`` for older records."""
    return "no method number" if number is None else f"method {number}"
