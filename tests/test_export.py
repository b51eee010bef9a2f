"""Records as tables for other programs."""

import csv
import json

import pytest
from typer.testing import CliRunner

from conftest import consistent
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.runs import RecordFile
from gravbench.report import export
from test_record import record

RECORDS = [
    record(n=1000, axes={"p": 256, "theta": 0.7}, stages_seconds={"build": 0.5}, samples_seconds=[1.0, 2.0]),
    record(n=2000, axes={"p": "1d"}),
]


def test_csv_has_a_row_a_record_and_a_column_an_axis(tmp_path):
    path = tmp_path / "all.csv"
    export.write([RECORDS], path)
    first, second = csv.DictReader(path.read_text().splitlines())
    columns = ("n", "axis_p", "axis_theta", "stages_seconds_build")
    assert [first[name] for name in columns] == ["1000", "256", "0.7", "0.5"]
    assert json.loads(first["samples_seconds"]) == [1.0, 2.0]
    assert (second["axis_p"], second["axis_theta"]) == ("1d", "")
    assert first["key"] == RECORDS[0].key
    assert not list(tmp_path.glob("*.tmp"))


def test_a_text_that_a_spreadsheet_would_compute_is_written_as_text_and_numbers_stay_numbers(tmp_path):
    path = tmp_path / "all.csv"
    formula = '=HYPERLINK("http://x","y")'
    export.write([[record(device=formula, driver="@x", axes={"p": "+1", "q": -1}, energy_drift=-0.5)]], path)
    (row,) = csv.DictReader(path.read_text().splitlines())
    assert (row["device"], row["driver"], row["axis_p"]) == (f"'{formula}", "'@x", "'+1")
    assert (row["axis_q"], row["energy_drift"]) == ("-1", "-0.5")


def test_parquet_gives_back_the_numbers(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "all.parquet"
    export.write([RECORDS], path)
    table = parquet.read_table(path).to_pydict()
    assert table["n"] == [1000, 2000]
    assert table["samples_seconds"][0] == [1.0, 2.0]
    assert table["axis_p"] == ["256", "1d"]
    assert table["axis_theta"] == [0.7, None]
    assert table["median_seconds"] == [one.median_seconds for one in RECORDS]


def test_parquet_takes_integers_of_any_size_and_columns_of_two_kinds_of_numbers(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "all.parquet"
    export.write([[record(seed=2**70, axes={"p": 2**60}), record(seed=1, axes={"p": 0.5})]], path)
    table = parquet.read_table(path).to_pydict()
    assert table["seed"] == [str(2**70), "1"]
    assert table["axis_p"] == [float(2**60), 0.5]


def test_the_command_writes_the_newest_record_of_each_case(tmp_path):
    for one in (RECORDS[0], RECORDS[0].model_copy(update={"samples_seconds": [9.0, 9.0]}), RECORDS[1]):
        RecordFile(tmp_path / "run").append(consistent(one))
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--to", str(tmp_path / "all.csv")])
    assert done.exit_code == 0, done.output
    first, _ = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
    assert first["median_seconds"] == "9.0"


@pytest.mark.parametrize(
    ("name", "records", "said"),
    [
        ("a.xls", RECORDS, "the ending is .xls; accepted"),
        ("a", RECORDS, "the ending is missing"),
        ("a.csv", [], "no records"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_sentence(tmp_path, name, records, said):
    with pytest.raises(InputError, match=said):
        export.write([records], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_parquet_without_pyarrow_says_what_brings_it(tmp_path, monkeypatch):
    monkeypatch.setattr(export.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"pip install 'gravbench\[parquet\]'"):
        export.write([RECORDS], tmp_path / "a.parquet")
