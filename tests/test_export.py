"""Records as tables for other programs."""

import csv
import json
import warnings

import pytest
from typer.testing import CliRunner

from conftest import ROOT, consistent
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.runs import RecordFile, latest
from gravbench.report import export
from gravbench.report.chosen import Chosen
from test_record import record

LADDER = RecordFile(ROOT / "reports" / "h100" / "ladder").read()
ARENA = RecordFile(ROOT / "reports" / "h200" / "arena").read()
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


def test_skipped_records_have_a_row_without_an_uncertainty(tmp_path):
    measured = [one.model_copy(update={"anchor": anchor}) for anchor, one in enumerate([RECORDS[0]] * 2, start=1)]
    skipped = record(n=1000, status="skipped", reason="no GPU", samples_seconds=[], median_seconds=None)
    export.write([[*measured, skipped.model_copy(update={"variant": "other"})]], tmp_path / "all.csv")
    rows = {row["variant"]: row for row in csv.DictReader((tmp_path / "all.csv").read_text().splitlines())}
    assert (rows["other"]["half_width"], rows["other"]["half_width_includes_processes"]) == ("", "")


def test_only_chosen_records_are_exported(tmp_path):
    assert export.write([RECORDS], tmp_path / "some.csv", Chosen((2000,))) == 1
    (row,) = csv.DictReader((tmp_path / "some.csv").read_text().splitlines())
    assert row["n"] == "2000"


@pytest.fixture(scope="module")
def of_the_ladder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exports")
    for kind in export.KINDS:
        export.write([LADDER], folder / f"ladder{kind}")
    return folder


def test_kernel_tuner_accepts_the_results_of_the_ladder(of_the_ladder):
    reader = pytest.importorskip("kernel_tuner.file_utils")
    jsonschema = pytest.importorskip("jsonschema")
    content = json.loads((of_the_ladder / "ladder.t4.json").read_text("utf-8"))
    version, schema = reader.output_file_schema("results")
    jsonschema.validate(content, schema)
    assert content["schema_version"] == version
    wrong = {**content, "results": [content["results"][0] | {"invalidity": "unknown"}]}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema)


def test_results_of_tuning_have_the_cases_with_their_times_in_milliseconds(of_the_ladder):
    results = json.loads((of_the_ladder / "ladder.t4.json").read_text("utf-8"))["results"]
    newest = latest(LADDER)
    assert len(results) == len(newest)
    for result, one in zip(results, newest, strict=True):
        assert result["configuration"]["variant"] == one.variant
        assert {name for name in result["configuration"] if name.startswith("axis_")} == {f"axis_{a}" for a in one.axes}
        assert result["invalidity"] == {"ok": "correct", "skipped": "constraints"}[one.status]
        assert result["correctness"] == (one.status == "ok")
        measured = {value["name"]: value["value"] for value in result["measurements"]}
        assert measured.get("time") == (one.median_seconds and 1e3 * one.median_seconds)
        assert result["times"]["runtimes"] == [1e3 * seconds for seconds in one.samples_seconds]


@pytest.mark.parametrize(("status", "word"), [("invalid", "correctness"), ("failed", "runtime"), ("ok", "correct")])
def test_results_of_tuning_say_why_one_does_not_count(tmp_path, status, word):
    one = RECORDS[0].model_copy(update={"status": status})
    export.write([[one]], tmp_path / "one.t4.json")
    (result,) = json.loads((tmp_path / "one.t4.json").read_text("utf-8"))["results"]
    assert (result["invalidity"], result["correctness"]) == (word, float(status == "ok"))


def test_thicket_reads_the_records_with_their_stages(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thicket = pytest.importorskip("thicket")
        path = tmp_path / "arena.thicket.json"
        written = export.write([ARENA], path)
        ensemble = thicket.Thicket.from_json(path.read_text("utf-8"))
        frame, metadata = ensemble.dataframe.reset_index(), ensemble.metadata
    newest = [one for one in latest(ARENA) if one.median_seconds is not None]
    assert len(metadata) == written == len(newest)
    assert list(metadata["variant"]) == [one.variant for one in newest]
    assert list(metadata["median_seconds"]) == [one.median_seconds for one in newest]
    roots = frame[frame["name"] == "evaluation"].set_index("profile")["time (inc)"]
    assert list(roots.sort_index()) == [one.median_seconds for one in newest]
    stages = frame[frame["name"] != "evaluation"]
    assert len(stages) == sum(len(one.stages_seconds) for one in newest) > 0
    assert {node.frame["name"] for node in ensemble.graph.traverse()} == {"evaluation", *stages["name"]}


def test_pandas_reads_the_table_with_documented_columns(of_the_ladder, monkeypatch):
    pandas = pytest.importorskip("pandas")
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "hooks"))
    import record_page

    frame = pandas.read_parquet(of_the_ladder / "ladder.parquet")
    assert list(frame["median_seconds"].dropna()) == [
        one.median_seconds for one in latest(LADDER) if one.median_seconds
    ]
    names = {name for kind in (LADDER, ARENA) for name in export.columns(export.rows([kind]))}
    text = record_page.page()
    for name in names:
        begins = next((f"{field}_NAME" for field in record_page.BEGINNINGS if name.startswith(f"{field}_")), name)
        assert f"\n| `{begins}` |" in text, name
    assert frame.columns.is_unique
