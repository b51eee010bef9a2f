"""Records that others wrote, or spoilt: no command that reads them ends in a traceback, hangs or writes elsewhere."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from conftest import ROOT, consistent
from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.model.record import Record
from gravbench.report.page import html

SEED = 20261122
RUNS = ("h100/ladder", "h100/bodin2026", "h100/counters", "h100/gems3", "h200/wgpu")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL: list[Any] = [
    None, True, False, 0, -1, 1, 2, 10**20, 10**200, -(2**63), 1.5, -0.0, 1e308, 5e-324, -1e-9, "NaN", "Infinity",
    "-Infinity", "", " ", "0", "../../..", "/etc/passwd", "/dev/zero", "..", ".", "a/b", "C:\\x", "\x1b[2J\x1b]0;x\x07",
    "\u202edlrow", "\x00", "\x9b31m", "a\nb", "a\tb", "\r", "[bold]", "[/]", "[/red]", "[link=file:///]x", "{", "}",
    "{0}", "{dt:g}", "%s", "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "<script>alert(1)</script>", "</script><b>",
    "\"'><img src=x onerror=alert(1)>", "javascript:alert(1)", "<!--", "]]>", "&lt;", "__proto__", "constructor", "²",
    "٣", "x" * 500, "x" * 100_000, "yesterday", "2026-02-31T00:00:00+00:00", "0001-01-01T00:00:00+23:59", [], {}, [[]],
    [None], ["NaN"], [1e308, 1e308], [0], {"": 0}, {"a": None}, {"a": "NaN"}, {"\x1b": 1}, {"[/]": 1}, {"__proto__": 1},
    {"theta": "x"}, {"theta": 0.5}, {"dim": 2}, {"dim": "2"}, {"n": 1}, {"p": 0, "q": 0, "unroll": 0},
    {"equal_mass": []},
]  # fmt: skip
WORDS = ("variant", "toolkit", "axes", "device", "reason", "stages_seconds", "counters", "interaction", "n", "cycle")


@lru_cache
def lines() -> list[dict[str, Any]]:
    """A few committed records of every kind, without most of their samples."""
    found = []
    for name in RUNS:
        own = (ROOT / "reports" / name / "records.jsonl").read_text("utf-8").splitlines()
        for line in own[:: max(1, len(own) // 12)]:
            record = json.loads(line)
            for field in ("samples_seconds", "processes", "sm_clock_mhz", "power_watts", "temperature_celsius"):
                record[field] = record.get(field, [])[:10]
            if record["samples_seconds"]:
                record |= json.loads(consistent(Record.model_validate(record)).model_dump_json())
            found.append(record)
    return found


def mutated(chance: random.Random, commit: str) -> bytes:
    """Return the content of a file of records, of which some lines are no longer what they were."""
    chosen = chance.sample(lines(), 6)
    made = []
    for record in chosen:
        fields = dict(record) | {"commit": chance.choice([record["commit"], commit, commit])}
        for _ in range(chance.choice([0, 1, 1, 1, 2, 5])):
            name = chance.choice([*fields, *WORDS])
            value = chance.choice(EVIL)
            old = fields.get(name)
            if isinstance(old, dict) and chance.random() < 0.5:
                value = old | {chance.choice([*old, "a", "theta", *map(str, EVIL[20:30])]): value}
            elif isinstance(old, list) and chance.random() < 0.5:
                value = [*old, value]
            elif isinstance(old, int | float) and not isinstance(old, bool) and chance.random() < 0.5:
                value = old * chance.choice([-1, 0, 2, 10**6, 10**18])
            fields[name] = value
            if chance.random() < 0.05:
                del fields[name]
        made.append(json.dumps(fields, ensure_ascii=chance.random() < 0.5).encode(errors="replace"))
    kind = chance.randrange(10)
    if kind == 0:
        made.insert(
            2, chance.choice([b"", b"null", b"[" * 5000, b'{"a":' * 5000, b"\xff\xfe\x00", b'"\\ud800"', b"1e999"])
        )
    elif kind == 1:
        made.append(made[0])
    text = bytearray(b"\n".join(made) + b"\n" * chance.randrange(2))
    if kind == 2:
        for _ in range(chance.randrange(1, 30)):
            text[chance.randrange(len(text))] = chance.randrange(256)
    elif kind == 3:
        del text[chance.randrange(len(text)) :]
    return bytes(text)


@pytest.fixture(scope="module", autouse=True)
def bundled_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(html, "_vega", lambda: "window.vegaEmbed = null;")
        yield


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in a folder, with a repository of one commit: what is written beside it would show."""
    folder = tmp_path / "outer" / "inner" / "work"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "100")
    identity = ("-c", "user.name=nobody", "-c", "user.email=nobody@localhost")
    for words in (("init", "--quiet"), (*identity, "commit", "--quiet", "--allow-empty", "--message", "one")):
        subprocess.run(["git", *words], check=True)
    return folder


def commit_of(folder: Path) -> str:
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


COMMANDS = (
    ["report", "a"],
    ["report", "a", "--full"],
    ["report", "a", "--json"],
    ["report", "a", "--markdown"],
    ["report", "a", "--html", "out/page.html"],
    ["compare", "a", "b", "--all"],
    ["compare", "a", "--by", "toolkit", "--markdown"],
    ["compare", "a", "--by", "device", "--json"],
    ["best", "a"],
    ["best", "a", "--json", "--error", "1e3"],
    ["export", "a", "--to", "out/all.csv"],
    ["export", "a", "--to", "out/all.parquet"],
    ["history", "export", "a", "--to", "out/results"],
)


def invoked(words: list[str]) -> Any:
    """Run a command; an InputError is a sentence with exit code 2, as the program's main makes it."""
    began = time.process_time()
    done = CliRunner().invoke(app, words)
    assert time.process_time() - began < 10, words
    if isinstance(done.exception, InputError):
        assert not CONTROLS.search(str(done.exception)), words
        assert len(str(done.exception)) < 5_000
    elif done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


class Elements(HTMLParser):
    """Gathers the tags and attributes of a page, without what scripts hold."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        assert all(re.fullmatch(r"[A-Za-z0-9_-]+", value or "") for name, value in attrs if name == "id")


OWN_TAGS = set(
    re.findall(
        r"\w+",
        "html head meta title style body a header h1 h2 h3 h4 dl dt dd nav ul ol li main section div p figure "
        "figcaption pre code ins del span details summary table thead tbody tr th td br label "
        "input button script noscript strong caption wbr",
    )
)


def outside(folder: Path) -> set[Path]:
    allowed = {folder / name for name in ("a", "b", "out", ".git")}
    return {
        path
        for path in folder.parents[1].rglob("*")
        if not any(path == one or one in path.parents for one in allowed) and path not in (folder, folder.parent)
    }


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_spoilt_records_end_in_a_report_or_a_sentence(place: Path, attacks: int) -> None:
    commit = commit_of(place)
    (place / "b").mkdir()
    (place / "b" / "records.jsonl").write_bytes(b"\n".join(json.dumps(one).encode() for one in lines()) + b"\n")
    (place / "a").mkdir()
    (place / "out").mkdir()
    for number in range(500 * attacks):
        chance = random.Random(SEED + number)
        (place / "a" / "records.jsonl").write_bytes(mutated(chance, commit))
        # Every command meets its share of the files.
        words = COMMANDS[number % len(COMMANDS)]
        try:
            done = invoked(words)
        except Exception as error:
            error.add_note(f"file {number}: {' '.join(words)}")
            raise
        assert not CONTROLS.search(done.output), (number, words)
    assert outside(place) == set()


MARKUP = "<img src=x onerror=alert(1)>\"'</script>"


def test_markup_in_any_field_of_a_record_is_no_element_of_the_page(place: Path) -> None:
    records = []
    for field in lines()[0]:
        for one in (one for one in lines()[::12] if field in one):
            value: Any = {dict: {MARKUP: 0.5}, list: [MARKUP]}.get(type(one[field]), MARKUP)
            records += [one | {field: value}, one | {"axes": one["axes"] | {"p": MARKUP}}]
    (place / "a").mkdir()
    (place / "a" / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in [*records, *lines()]), "utf-8")
    assert invoked(["report", "a", "--html", "page.html"]).exit_code == 0
    text = (place / "page.html").read_text("utf-8")
    found = Elements()
    found.feed(text)
    assert found.tags <= OWN_TAGS
    assert not {name for name in found.attributes if name.startswith("on") or name == "src"}
    assert text.count("<script") == text.count("</script>") == 3


def test_a_machine_named_as_a_folder_above_and_a_toolkit_named_as_a_path_write_below_the_folder_alone(
    place: Path,
) -> None:
    commit = commit_of(place)
    own = [
        one | {"commit": commit, "device": device}
        for one, device in zip(lines(), ("..", "../..", "/", ""), strict=False)
    ]
    for name, records in (("a", own), ("b", [one | {"toolkit": "../../..", "commit": commit} for one in lines()[:3]])):
        (place / name).mkdir()
        (place / name / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    for name in ("a", "b"):
        invoked(["history", "export", name, "--to", "out/deep/results"])
    assert outside(place) == set()
    assert list((place / "out" / "deep").iterdir()) == [place / "out" / "deep" / "results"]


def test_no_path_that_a_record_or_its_environment_names_is_opened(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe would hang whoever reads it."""
    pipe = place / "pipe"
    os.mkfifo(pipe)
    (place / "a").mkdir()
    records = [one | {"interaction": str(pipe), "bodies": str(pipe)} for one in lines()]
    (place / "a" / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in records), "utf-8")
    (place / "a" / "environment.json").write_text(
        json.dumps([{"config": str(pipe), "command": f"gravbench run {pipe}"}])
    )
    opened = []
    own = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path, *rest, **more: opened.append(path) or own(path, *rest, **more))
    for words in COMMANDS[:3] + COMMANDS[6:9]:
        invoked([word.replace("b", "a") if word == "b" else word for word in words])
    assert pipe not in opened
    (place / "a" / "environment.json").unlink()
    os.mkfifo(place / "a" / "environment.json")
    assert invoked(["report", "a"]).exit_code == 0
