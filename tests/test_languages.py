"""What a language costs and gives: lines, instructions and speeds, and the table that docs/ shows of them."""

import json
import os
import re
import subprocess
import sys

import pytest

from conftest import ROOT
from gravbench.errors import InputError
from gravbench.explain import assembling, generated, languages
from gravbench.model.interaction import GRAVITY
from gravbench.model.interaction_files import find as find_interaction
from gravbench.model.run_names import find
from gravbench.model.runs import RecordFile
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import discover
from gravbench.report.numbers import number
from gravbench.report.provenance import NOWHERE
from gravbench.toolkits import nvrtc
from test_report import record

VARIANTS = discover()
PAGE = (ROOT / "docs" / "explanation" / "languages.md").read_text("utf-8")
FOUND = re.search(r"<!-- languages: python -m gravbench.explain.languages (.+?) -->\n(.*?)<!-- end", PAGE, re.DOTALL)
ROWS = [[cell.strip() for cell in line.split("|")] for line in FOUND[2].splitlines() if "| `" in line]
GIVEN = languages.arguments(FOUND[1].split())
BESIDE = languages.kernels_of(GIVEN.beside, VARIANTS)
CELLS = {(cells[1].strip("`"), cells[2]): cells for cells in ROWS}


@pytest.fixture
def uncounted(monkeypatch):
    """Count no instructions, which needs the compilers of all languages."""
    monkeypatch.setattr(languages, "instructions_of", lambda *_: None)


def test_lines_are_those_of_code(tmp_path):
    stem = tmp_path / "own.py"
    stem.write_text(
        '"""Not counted."""\n\n\ndef jax_kernel(jax, real):\n    """Not\n    counted."""\n\n    # Not counted.\n'
        "    a = 1  # counted\n    return a\n\n\ndef prepare():\n    return 2\n"
    )
    stem.with_suffix(".cu").write_text("// Not counted.\n/* Nor\nthis. */\nint a;  // counted\n\n#define B 1\n")
    stem.with_suffix(".mojo").write_text("# Not counted.\n\nvar a = 1  # counted\n")
    variant = type("Own", (), {"path": stem, "has_cuda_c": True})
    assert [languages.lines_of(variant, toolkit) for toolkit in ("jax", "cupy", "mojo")] == [3, 2, 1]


ARCHITECTURES = ("sm_80", "sm_90", "sm_120")
PRINTING = """
import json, sys
from typer.testing import CliRunner
from gravbench.cli.main import app

for name, architecture in json.loads(sys.argv[1]):
    words = ["source", name, "--machine-code", "--toolkit", "numba", "--arch", architecture]
    done = CliRunner().invoke(app, words)
    print(json.dumps([done.exit_code, done.stdout, str(done.exception or "")]))
"""


@pytest.fixture(scope="module")
def machine_code_of_numba():
    """Print the kernels in a process of their own: here numba.cuda is its simulator."""
    kernels = [(name, each) for name in ("naive", "tiled", "register_blocked", "kahan") for each in ARCHITECTURES]
    plain = {key: value for key, value in os.environ.items() if key != "NUMBA_ENABLE_CUDASIM"}
    command = [sys.executable, "-c", PRINTING, json.dumps(kernels)]
    done = subprocess.run(command, capture_output=True, text=True, env=plain, check=False)
    assert not done.returncode, done.stderr
    return dict(zip(kernels, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("name", ["naive", "tiled", "register_blocked", "kahan"])
def test_numba_makes_machine_code_without_a_gpu(name, architecture, machine_code_of_numba):
    code, text, fault = machine_code_of_numba[name, architecture]
    if "NVVM" in fault:
        pytest.skip(fault)
    assert not code, fault
    assert f".target\t{architecture}" in text
    opcodes = re.findall(r"^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?U?P\d+ )?(\w+[\w.]*)", text, re.MULTILINE)
    assert sum(one.startswith("FFMA") for one in opcodes) >= 12
    assert any(one.startswith("MUFU.RSQ") for one in opcodes)
    assert not [one for one in opcodes if one.startswith(("LDL", "STL"))], "registers are spilled"


def test_the_simulator_has_no_machine_code():
    with pytest.raises(InputError, match=r"does not compile naive for sm_90: numba\.cuda is its simulator"):
        generated.machine_code(VARIANTS["naive"], find_interaction(GRAVITY), "sm_90", "numba")


def test_a_twin_of_numbas_kernel_has_its_lines():
    assert languages.lines_of(VARIANTS["tiled"], "mlir") == languages.lines_of(VARIANTS["tiled"], "numba") > 20


@pytest.mark.usefixtures("uncounted")
def test_a_speed_is_of_the_fastest_case_of_its_variant_and_toolkit():
    records = [
        record("naive", 4e-3, n=65536),
        record("naive", 2e-3, n=65536, axes={"p": 64}),
        record("naive", 1e-3, n=65536, status="invalid"),
        record("naive", 1e-3, n=4096),
        record("naive", 1e-3, n=65536, dtype="float64"),
        record("jax_jit", 8e-3, n=65536, toolkit="jax"),
    ]
    rows = {row.variant: row for row in languages.rows(VARIANTS, records, [("naive", "cupy")])}
    assert rows["naive"].timed.record is records[1]
    assert rows["jax_jit"].timed.record is records[-1]
    assert rows["cute_tiles"].timed is None
    assert "jzfmm_multipoles" not in rows
    table = languages.markdown(list(rows.values()), NOWHERE)
    cells = [cell.strip() for cell in next(line for line in table.splitlines() if "`naive`" in line).split("|")]
    assert cells[4:7] == ["not counted", "2,147", "2.000"]
    assert "| CuTe DSL |" in table
    assert "not measured" in table


@pytest.mark.usefixtures("uncounted")
def test_records_that_cannot_be_compared_are_refused():
    two = [record("naive", 1e-3, n=65536), record("tiled", 1e-3, n=65536, device_uuid="GPU-2")]
    for records, count in ((two, 2), ([], 0)):
        with pytest.raises(InputError, match=f"was measured under {count} conditions; accepted: one"):
            languages.rows(VARIANTS, records)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tield:cupy", "--beside tield:cupy: no such variant; did you mean tiled"),
        ("tiled:jax", "--beside tiled:jax: tiled has no such kernel; "),
    ],
)
def test_a_kernel_that_is_not_there_is_refused(text, message):
    with pytest.raises(InputError, match=message):
        languages.kernels_of(text, VARIANTS)


@pytest.mark.usefixtures("uncounted")
def test_the_page_has_the_lines_and_speeds_of_today():
    records = [one for run in GIVEN.runs for one in RecordFile(find(run)).read()]
    rows = languages.rows(VARIANTS, records, BESIDE)
    rows = [row for row in rows if row.timed or (row.variant, row.language) in CELLS]
    assert list(CELLS) == [(row.variant, row.language) for row in rows]
    assert len(CELLS) == len(ROWS)
    again = languages.markdown(rows, languages.Here(VARIANTS))
    for line in again.splitlines():
        if "| `" in line:
            cells = [cell.strip() for cell in line.split("|")]
            shown = CELLS[cells[1].strip("`"), cells[2]]
            cells[4] = shown[4]
            assert cells == shown


@pytest.mark.parametrize(("name", "language"), CELLS)
def test_the_page_has_the_instructions_that_the_compilers_make(name, language):
    variant = VARIANTS[name]
    toolkit = next((one for one in variant.toolkits if catalogue()[one].title == language), variant.toolkits[0])
    entry = catalogue()[toolkit]
    if reason := assembling.missing():
        pytest.skip(reason)
    if nvrtc.version() not in PAGE:
        pytest.skip(f"the page is by another version than {nvrtc.version()}")
    if toolkit in generated.compilers():
        if entry.missing:
            pytest.skip(entry.missing)
        if entry.version not in PAGE:
            pytest.skip(f"the page is by another version than {entry.version}")
    found = languages.instructions_of(variant, toolkit)
    assert CELLS[name, language][4] == (number(found, 3) or "not counted")
