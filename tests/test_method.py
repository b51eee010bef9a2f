"""The number of the method: records have it, results of another are not reused, reports mark them.

A change of the code that times or judges is decided on: ``LOOKED_AT`` has the hash of each such module, without
comments and layout.
"""

import hashlib
from pathlib import Path

from conftest import ROOT, flat
from gravbench.measuring import environment
from gravbench.model import python_code
from gravbench.model.method import METHOD
from gravbench.model.record import Record
from gravbench.model.variant import discover
from gravbench.report.compared import comparison_json
from gravbench.report.provenance import NOWHERE, OTHER_METHOD, Here
from gravbench.report.terminal.comparison import comparison_markdown
from gravbench.report.terminal.ladder import ladder_markdown
from gravbench.verdicts import compare
from test_provenance import measured
from test_report import PARENTS, shown_here

VARIANTS = discover()

LOOKED_AT: tuple[int, dict[str, str]] = (
    2,
    {
        "config/settings.py": "c7296694",
        "measuring/builds.py": "e0838122",
        "verifying/checks.py": "3dc98862",
        "verifying/comparing.py": "10605bee",
        "verifying/conserved.py": "75e2fa8a",
        "verifying/direct_sums.py": "c0c68ce1",
        "measuring/engine.py": "4b2e5bc4",
        "verifying/gpu_sums.py": "57084fdc",
        "verifying/perturbed.py": "86aec78b",
        "measuring/protocol.py": "3fffcc58",
        "measuring/session.py": "0f9c62b7",
        "verifying/shared_sums.py": "936964a6",
        "measuring/stages.py": "2a4477f0",
        "measuring/step.py": "baf43494",
        "measuring/timed.py": "77c74ff6",
        "verifying/verify.py": "de6b113e",
        "model/bodies.py": "4b35985e",
        "model/bodies_readers.py": "101da01b",
        "model/derived.py": "9b57285d",
        "model/generators.py": "812a01e2",
        "model/initial_conditions.py": "2e31131a",
        "model/interaction.py": "356c047c",
        "model/interaction_files.py": "b8406f07",
        "model/rounding.py": "4d5d7462",
        "model/statistics.py": "bc104387",
        "verdicts/racing.py": "34e7a8b7",
        "toolkits/buffers.py": "367a8f95",
        "toolkits/cpu.py": "c87fa728",
        "toolkits/cupy.py": "2c5b1dca",
        "toolkits/cute.py": "697dd415",
        "toolkits/cutile.py": "7054f9ab",
        "toolkits/devices.py": "ce5aaaa4",
        "toolkits/driver.py": "bff85ed6",
        "toolkits/images.py": "071c21ae",
        "toolkits/interface.py": "c53100cc",
        "toolkits/jax.py": "57cf7338",
        "toolkits/jzfmm.py": "390eeecd",
        "toolkits/mlir.py": "2d156ab7",
        "toolkits/mojo.py": "20cb65d4",
        "toolkits/numba.py": "14a0814e",
        "toolkits/parts.py": "8974b33e",
        "toolkits/pycuda.py": "0bb8ce96",
        "toolkits/several.py": "b83a002f",
        "toolkits/torch.py": "4ef35a93",
        "toolkits/triton.py": "014937f0",
        "toolkits/warp.py": "0936f37b",
    },
)
"""The method for which these modules were looked at, and the first digits of the hash of each."""


def sha256(name: str) -> str:
    return hashlib.sha256(python_code.normal((ROOT / "harness" / name).read_text("utf-8")).encode()).hexdigest()[:8]


def test_code_that_times_or_judges_changes_only_together_with_a_look_at_the_method():
    number, known = LOOKED_AT
    changed = {name: now for name, was in known.items() if (now := sha256(name)) != was}
    assert not changed, (
        "The code of these modules changed. If it changes what is timed, how it is sampled or how a result is judged, "
        "raise METHOD in harness/model/method.py and add a line to its history. Then set LOOKED_AT in "
        f"tests/test_method.py: {changed}"
    )
    assert number == METHOD, f"LOOKED_AT is of method {number}: look at its modules and set it to {METHOD}"


def test_every_toolkit_is_looked_at():
    """Each waits for its device and reads its clock, or leaves that to another."""
    toolkits = {f"toolkits/{path.name}" for path in (ROOT / "harness" / "toolkits").glob("*.py") if _has_entry(path)}
    assert len(toolkits) > 10
    assert toolkits <= LOOKED_AT[1].keys()


def _has_entry(path: Path) -> bool:
    return "\nENTRY = " in path.read_text("utf-8")


def two(number: int | None) -> list[Record]:
    """Two cases of today's source, by a method."""
    return [measured("naive", method=number), measured("tiled", method=number)]


def compared(base: list[Record], new: list[Record]) -> compare.Comparison:
    return compare.compare_runs(compare.Run("old", base), compare.Run("new", new), 0.02)


def test_a_fingerprint_has_the_method_of_the_running_code():
    record = measured("tiled")
    assert environment.fingerprint(record, VARIANTS["tiled"], None).method == METHOD
    assert record.fingerprint["method"] == METHOD
    assert record.what_ran != record.model_copy(update={"method": None}).what_ran


def test_rows_of_another_method_are_marked_beside_those_of_this_one():
    records = [measured("naive"), measured("tiled", method=None)]
    here = Here(VARIANTS, records)
    for text in (shown_here(records, here), ladder_markdown(records, PARENTS, {}, here)):
        lines = {line.strip("| ").split()[0]: line for line in text.splitlines() if line.strip("| ")}
        assert OTHER_METHOD in lines["tiled"]
        assert OTHER_METHOD not in lines["naive"]
        assert f"another method (unnumbered) than this checkout's ({METHOD}) measured 1 row" in flat(text)


def test_where_every_row_is_of_another_method_one_note_says_so_and_no_row_is_marked():
    records = two(None)
    here = Here(VARIANTS, records)
    text = ladder_markdown(records, PARENTS, {}, here)
    assert text.count(OTHER_METHOD) == 1
    assert f"`{OTHER_METHOD}` another method (unnumbered) than this checkout's ({METHOD}) measured every row" in flat(
        text
    )
    assert OTHER_METHOD not in ladder_markdown(records, PARENTS, {}, NOWHERE)
    assert OTHER_METHOD not in ladder_markdown(two(METHOD), PARENTS, {}, Here(VARIANTS, two(METHOD)))


def test_a_comparison_of_two_methods_says_so():
    found = compared(two(None), two(METHOD))
    text = flat(comparison_markdown(found, everything=True))
    assert (
        f"2 cases were measured by different methods (no method number in BASE, method {METHOD} in NEW): the change"
        in text
    )
    (pair, _) = comparison_json(found)["pairs"]
    assert (pair["base_method"], pair["new_method"]) == (None, METHOD)
    assert "different methods" not in comparison_markdown(compared(two(METHOD), two(METHOD)), everything=True)
    assert "different methods" not in comparison_markdown(compared(two(None), two(None)), everything=True)
