"""The number of the method: records have it, results of another are not reused, reports mark them.

A change of the code that times or judges is decided on: ``LOOKED_AT`` has the hash of each such module, without
comments and layout.
"""

import hashlib
import re
from pathlib import Path

from conftest import ROOT, flat
from gravbench.measuring import environment
from gravbench.model import python_code
from gravbench.model.method import METHOD
from gravbench.model.record import Record
from gravbench.model.runs import RECORDS
from gravbench.model.variant import discover
from gravbench.report.compared import comparison_json
from gravbench.report.provenance import NOWHERE, OTHER_METHOD, Here
from gravbench.report.terminal.comparison import comparison_markdown
from gravbench.verdicts import compare
from printed_sections import ladder_markdown
from test_provenance import measured
from test_report import PARENTS, shown_here

VARIANTS = discover()

LOOKED_AT: tuple[int, dict[str, str]] = (
    3,
    {
        "config/settings.py": "426e9d9a",
        "measuring/builds.py": "e44a3098",
        "verifying/checks.py": "78a755f2",
        "verifying/comparing.py": "b47e344c",
        "verifying/conserved.py": "264edb7c",
        "verifying/direct_sums.py": "ee87bc9c",
        "measuring/engine.py": "dcaf4e5c",
        "toolkits/cuda_results.py": "c53b6a41",
        "toolkits/cuda_sums.py": "0cddddaa",
        "verifying/outside.py": "532be8be",
        "measuring/outside_judge.py": "1f98212d",
        "verifying/perturbed.py": "cd740af9",
        "measuring/protocol.py": "9fc65cd0",
        "measuring/session.py": "acf4e092",
        "verifying/shared_sums.py": "89aae309",
        "measuring/stages.py": "972c9455",
        "measuring/step.py": "c9822f1b",
        "measuring/timed.py": "4902d862",
        "verifying/verify.py": "2220c172",
        "model/bodies.py": "4b35985e",
        "model/bodies_readers.py": "101da01b",
        "model/derived.py": "7c6097ef",
        "model/generators.py": "93e5dca7",
        "model/initial_conditions.py": "dfc453fa",
        "model/interaction.py": "c7f90a0b",
        "model/interaction_files.py": "d88ca396",
        "model/rounding.py": "4d5d7462",
        "model/statistics.py": "fc30c090",
        "verdicts/racing.py": "34e7a8b7",
        "toolkits/buffers.py": "4ffb62aa",
        "toolkits/cpu.py": "c9c6c53d",
        "toolkits/cuda.py": "8488b5df",
        "toolkits/cupy.py": "b9b9e20a",
        "toolkits/cute.py": "cbecbe1d",
        "toolkits/cutile.py": "3fe9ae55",
        "toolkits/device_sums.py": "9674d114",
        "toolkits/devices.py": "45832744",
        "toolkits/driver.py": "3227922b",
        "toolkits/images.py": "071c21ae",
        "toolkits/interface.py": "99d185fc",
        "toolkits/jax.py": "2790b65f",
        "toolkits/jzfmm.py": "8e23c344",
        "toolkits/mlir.py": "13df1516",
        "toolkits/mojo.py": "c643dd11",
        "toolkits/numba.py": "c37d0d05",
        "toolkits/parts.py": "6134496c",
        "toolkits/pycuda.py": "07e78d58",
        "toolkits/several.py": "b83a002f",
        "toolkits/torch.py": "cc722d31",
        "toolkits/triton.py": "856db97b",
        "toolkits/warp.py": "e6a635ce",
        "toolkits/wgpu.py": "0bc55c12",
        "toolkits/dispatching.py": "b26c3476",
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


def test_every_toolkit_that_has_measured_something_is_looked_at():
    """Each waits for its device and reads its clock, or leaves that to another."""
    toolkits = set().union(*map(_toolkits, (ROOT / "reports").rglob(RECORDS)))
    assert len(toolkits) > 10
    assert {f"toolkits/{name}.py" for name in toolkits} <= LOOKED_AT[1].keys()


def _toolkits(path: Path) -> set[str]:
    return {name.decode() for name in re.findall(rb'"toolkit": ?"(\w+)"', path.read_bytes())}


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
