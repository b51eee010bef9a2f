"""A thousand wrong command lines: exit code 0, 1 or 2, and what is wrong in one sentence."""

import random
import sys
import time

import pytest
import typer.main
from sentence import NASTY_WORDS, SECONDS, answered

from gravbench.cli import main as command_line
from gravbench.errors import InputError
from gravbench.measuring import rounds, runner
from gravbench.model.runs import RecordFile
from test_record import record

LINES = 1000
TINY = "n: [16, 20]\nvariants: [numpy_direct, {variant: tiled, p: [64, 128]}]\n"

OF_A_SWEEP = ["-p", "--parameter", "--variant", "--toolkit", "--device", "--bodies", "--subset"]
OPTIONS = {
    "run": [*OF_A_SWEEP, "--out", "--resume", "--counters"],
    "check": OF_A_SWEEP,
    "selftest": ["-p", "--variant", "--toolkit", "--device", "--pairs", "--threshold", "--out", "--from", "--json",
                 "--across-devices"],
    "compare": ["--by", "--values", "--threshold", "--fail-on", "--all", "--json", "--markdown"],
    "best": ["--error", "--quantile", "--device", "--dtype", "--threshold", "--all", "--json", "--save"],
    "replay": ["--strategy", "--repeat", "--within", "--threshold", "--json", "--figure"],
    "report": ["--markdown", "--published"],
    "export": ["--to"],
    "source": ["--interaction"],
    "list": [],
    "history": ["--to", "--machine"],
}  # fmt: skip
WORDS = [
    *("quick", "tiny.yaml", "tiny", "measured", "reports", "gravity", "hermite", "tiled", "cpu", "cuda:0"),
    *("cupy", "n=16", "n=8,16", "p=64", "p=65", "n=1..9+1", "seed=1..9999+1", "measure.budget_seconds=1", "float32"),
    *("n", "p", "variant", "toolkit", "2%", "0.02", "-1", "200%", "1e-3", "slower", "plummer", "even", "lee", "gems3"),
    *("out.csv", "out.parquet", "out.txt", "x.yaml/y.csv", "--", "-", "--help", "--nosuch", "-p=", "export"),
    *("race", "all", "random", "3", "0", "out.svg", "out.html"),
    *("timed=step,call", "bodies=no.tab", "n=" + "1," * 30_000 + "1", "dtype=float16", "interaction=no.py"),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Be in a folder with a configuration and a run, where nothing can be measured."""

    def refuse(*arguments, **options):
        raise InputError(f"this would measure with {len(arguments)} arguments and {len(options)} options")

    monkeypatch.setattr(runner, "run", refuse)
    monkeypatch.setattr(rounds.runner, "run", refuse)
    # Made once: it takes longer than most answers.
    monkeypatch.setattr(command_line, "app", typer.main.get_command(command_line.app))
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    for number, name in enumerate(["measured", "other"]):
        store = RecordFile(tmp_path / "reports" / name)
        for n in (1000, 2000):
            seconds = n * (1 + number) * 1e-6
            timed = {"samples_seconds": [seconds] * 9, "median_seconds": seconds, "ci_low": seconds, "ci_high": seconds}
            store.append(record(n=n, interactions_per_second=n * n / seconds, error_max=1e-6, error_rms=1e-6, **timed))
    return tmp_path


def answer(words, monkeypatch, capsys):
    """Run a command line and return its exit code; hold what it says to the rules of a sentence."""
    monkeypatch.setattr(sys, "argv", ["gravbench", *words])
    with answered(words) as said:
        began = time.process_time()
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        code = 0 if ended.value.code is None else ended.value.code
        printed = capsys.readouterr()
        assert code in (0, 1, 2)
        assert "Traceback" not in printed.out + printed.err
        if code == 2 and "Usage: " not in printed.err:
            # Values of axes that have no case are named before something else is refused.
            lines = [line for line in printed.err.removesuffix("\n").splitlines() if ": no case of " not in line]
            assert lines[0].startswith("gravbench: ")
            # A line may first say which run is meant; several mistakes of one configuration have a line each.
            said += lines[-1:] if "newest" in printed.err else lines
            assert len(lines) == 1 or "newest" in printed.err or all(line.startswith("gravbench: ") for line in lines)
        assert time.process_time() - began < SECONDS
    return code


def words_of(choose):
    """Make a command line."""
    command = choose.choice([*OPTIONS, "run", "run", "run", "nosuch", choose.choice(NASTY_WORDS)])
    words = ["history", "export"] if command == "history" else [command]

    def value():
        word = choose.choice([choose.choice(NASTY_WORDS), *[choose.choice(WORDS) for _ in range(3)]])
        return f"{choose.choice(['n', 'p', 'eps', 'bodies', 'x', ''])}={word}" if choose.random() < 0.2 else word

    if choose.random() < 0.95:
        usual = {"run": "tiny.yaml", "check": "quick", "source": "tiled"}.get(command, "measured")
        words.append(usual if choose.random() < 0.7 else value())
    if command in ("compare", "best", "replay") and choose.random() < 0.5:
        words.append(choose.choice(["other", value()]))
    for _ in range(choose.randrange(4)):
        option = choose.choice(OPTIONS.get(command) or ["--nosuch"])
        flag = option in ("--across-devices", "--resume", "--counters", "--all", "--json", "--markdown")
        words += [option] if flag or choose.random() < 0.05 else [option, value()]
    # Nothing may be planned longer than it takes to say so; nothing is measured in any case.
    return [*words, "--dry-run"] if command == "run" and choose.random() < 0.98 else words


@pytest.mark.slow
def test_any_command_line_is_answered_with_a_code_and_what_is_wrong_in_one_sentence(
    attacks, folder, monkeypatch, capsys
):
    codes = []
    for number in range(LINES * attacks):
        choose = random.Random(f"command line {number}")
        codes.append(answer(words_of(choose), monkeypatch, capsys))
        assert (folder / "tiny.yaml").read_text() == TINY
    assert {*codes} == {0, 1, 2} or {*codes} == {0, 2}
    assert codes.count(2) > len(codes) / 4


@pytest.mark.parametrize("word", NASTY_WORDS, ids=range(len(NASTY_WORDS)))
def test_any_word_in_the_place_of_a_file_or_name_is_answered(word, folder, monkeypatch, capsys):  # noqa: ARG001
    for words in (
        ["run", word, "--dry-run"], ["run", "tiny.yaml", "--dry-run", "--out", word], ["report", word],
        ["run", "tiny.yaml", "--dry-run", "--bodies", word], ["source", "tiled", "--interaction", word],
        ["run", "tiny.yaml", "--dry-run", "-p", f"interaction={word}"], ["report", "measured", "--published", word],
        ["run", "tiny.yaml", "--dry-run", "--resume", "--out", word], ["export", "measured", "--to", word],
    ):  # fmt: skip
        answer(words, monkeypatch, capsys)
