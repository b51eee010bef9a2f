"""The folder of a run: one process writes to it, and what happens to it behind that process's back is noticed."""

import errno
import fcntl
import io
import json
import os
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from conftest import command
from gravbench import api
from gravbench.asv.export import export
from gravbench.cli.main import main
from gravbench.cli.stopping import hinting, stopping
from gravbench.config.load import load
from gravbench.errors import InputError, Stopped
from gravbench.explain import counters
from gravbench.measuring import runner
from gravbench.measuring.plan import plan
from gravbench.measuring.progress import ConsoleWatcher
from gravbench.measuring.rounds import measure_rounds
from gravbench.model import regular, rescue
from gravbench.model.lock import LOCK, alone
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile, new_folder, newest
from test_record import record

SIZES = [16, 17, 18, 19]


@pytest.fixture
def skipping(tmp_path, monkeypatch):
    """A folder with a sweep that needs a GPU where there is none: its records are made without a worker."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(f"n: {SIZES}\nvariants: {{variant: tiled, toolkit: numba}}\n")
    return load("tiny.yaml")


def earlier(sweep, **changes):
    """Return a result of a case of the sweep, by other code, so that it is measured again."""
    return record(**sweep.cases[0].model_dump(), **changes)


class Meddler(runner.Watcher):
    """Does something to the folder when so many cases have their record."""

    def __init__(self, what, after):
        self.what, self.after = what, after

    def ends(self, record, progress):  # noqa: ARG002
        if progress.done == self.after:
            self.what()


# One writer


def test_a_folder_has_one_writer_and_the_other_is_told_who_and_since_when(tmp_path):
    with RecordFile(tmp_path / "run") as store:
        store.append(record())
        said = rf"^{re.escape(str(tmp_path))}/run: process {os.getpid()} on \S+ since 20\d\d-\S+ \S+ is writing to it; "
        for refused in (RecordFile(tmp_path / "run").append, RecordFile(tmp_path / "run").__enter__):
            with pytest.raises(InputError, match=said):
                refused(*[record()] if refused.__name__ == "append" else [])
        # Who only reads needs no leave.
        assert len(RecordFile(tmp_path / "run").read()) == 1
    RecordFile(tmp_path / "run").append(record(n=2))
    assert [one.n for one in RecordFile(tmp_path / "run").read()] == [1000, 2]
    assert [path.name for path in (tmp_path / "run").iterdir()] == [RECORDS]


def test_a_lock_ends_with_its_process_even_by_kill_9(tmp_path):
    script = f"""
import sys, time
from pathlib import Path
from gravbench.model.lock import alone
with alone(Path({str(tmp_path)!r})):
    print(flush=True)
    time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    process.stdout.readline()
    with pytest.raises(InputError, match=f"process {process.pid} on "), alone(tmp_path):
        pass
    process.kill()
    process.wait()
    process.stdout.close()
    assert (tmp_path / LOCK).exists()
    with alone(tmp_path):
        assert f"process {os.getpid()} on " in (tmp_path / LOCK).read_text()
    assert not (tmp_path / LOCK).exists()


def test_of_many_who_try_again_and_again_one_at_a_time_holds_the_folder(tmp_path):
    inside, most, entered = [], [], []

    def enter():
        for _ in range(300):
            try:
                with alone(tmp_path):
                    inside.append(1)
                    most.append(len(inside))
                    entered.append(1)
                    time.sleep(0)
                    inside.pop()
            except InputError:
                time.sleep(0)

    threads = [threading.Thread(target=enter) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(entered) > 100
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_locks_is_named(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(InputError, match=r"run\.lock: cannot be locked \(No locks available\).* on a local disk$"):
        RecordFile(tmp_path).append(record())


def test_runs_that_begin_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folders = []
    threads = [threading.Thread(target=lambda: folders.append(new_folder("quick"))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(folders)) == 20
    assert all(folder.is_dir() and re.fullmatch(r"quick-\d{8}-\d{6}", folder.name) for folder in folders)
    for folder in folders:
        (folder / RECORDS).touch()
    assert newest("quick") == max(folders)


def test_whatever_writes_to_a_folder_that_is_held_is_refused(skipping, tmp_path):
    RecordFile(Path("run")).append(earlier(skipping))
    before = Path("run", RECORDS).read_bytes()
    with alone(Path("run")), alone(Path("rounds", "round-1")), alone(Path("results")):
        said = (
            rf"^\S+: process {os.getpid()} on .* is writing to it; wait until it has finished, or name another folder$"
        )
        for code, output in (
            command("run", "tiny.yaml", "--out", "run", "--resume"),
            command("run", "tiny.yaml", "--out", "rounds/round-1"),
        ):
            assert (code, bool(re.match(said, output))) == (2, True), output
        with pytest.raises(InputError, match=said):
            api.run("tiny.yaml", "run", resume=True)
        with pytest.raises(InputError, match=said):
            counters.add_missing(skipping, Path("run"), print)
        todo = plan(skipping, [], "no GPU")
        with pytest.raises(InputError, match=said):
            runner.run(skipping, todo, Path("run"), runner.SILENT)
        subprocess.run(["git", "init", "-q"], check=True)
        with pytest.raises(InputError, match=said):
            export([], Path("results"))
    assert Path("run", RECORDS).read_bytes() == before
    assert [path.name for path in Path("run").iterdir()] == [RECORDS]
    assert tmp_path == Path.cwd()


def test_the_rounds_of_a_selftest_are_held_while_they_are_measured(skipping, tmp_path):
    held = []

    class Looker:
        def print(self, *_, **__):
            held.append((tmp_path / "out" / "round-1" / LOCK).exists())

    real = runner.run

    def look(*arguments, **options):
        with pytest.raises(InputError, match="is writing to it"), alone(arguments[2].folder):
            pass
        held.append(True)
        return real(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "run", look)
        patch.setattr(ConsoleWatcher, "__init__", lambda *_: None)
        patch.setattr(ConsoleWatcher, "__enter__", lambda _: runner.SILENT)
        patch.setattr(ConsoleWatcher, "__exit__", lambda *_: None)
        rounds = [(skipping, plan(skipping, [], "no GPU"))] * 2
        measure_rounds(rounds, [], tmp_path / "out", [], Looker())
    assert held == [False, True, False, True]
    assert len(RecordFile(tmp_path / "out" / "round-2").read()) == len(SIZES)


def test_what_another_run_added_since_the_plan_is_not_measured_twice(skipping):
    existing = runner.recorded(Path("run"), resume=True)
    RecordFile(Path("run")).append(earlier(skipping))
    with (
        pytest.raises(InputError, match="another run has just added to it"),
        runner.open_run(Path("run"), existing, [], [], skipping),
    ):
        pass
    assert not Path("run", ENVIRONMENT).exists()


# What happens to the folder behind its back


def rename():
    Path("run").rename("moved")


def replace_folder():
    rename()
    Path("run").mkdir()


def empty_folder():
    for path in Path("run").iterdir():
        path.unlink()


def replace_file():
    content = Path("run", RECORDS).read_bytes()
    Path("run", RECORDS).unlink()
    Path("run", RECORDS).write_bytes(content)


def edit():
    content = Path("run", RECORDS).read_text()
    with Path("run", RECORDS).open("r+") as file:
        file.write(content.replace("tiled", "wiled"))


def add():
    with Path("run", RECORDS).open("a") as file:
        file.write(record().model_dump_json() + "\n")


BEHIND = {
    "removed": (lambda: shutil.rmtree("run"), "was moved or removed"),
    "renamed": (rename, "was moved or removed"),
    "replaced": (replace_folder, "its folder was replaced by another"),
    "emptied folder": (empty_folder, "was moved or removed"),
    "removed file": (lambda: Path("run", RECORDS).unlink(), "was moved or removed"),
    "replaced file": (replace_file, "was replaced by another file"),
    "emptied file": (lambda: os.truncate("run/" + RECORDS, 0), "was changed during the run: it has 0 bytes instead of"),
    "cut file": (lambda: os.truncate("run/" + RECORDS, 100), "was changed during the run: it has 100 bytes instead of"),
    "edited file": (edit, "was changed during the run"),
    "a line more": (add, "was changed during the run"),
}


@pytest.mark.parametrize("after", [1, len(SIZES)], ids=["in the middle", "at the end"])
@pytest.mark.parametrize(("what", "said"), BEHIND.values(), ids=BEHIND.keys())
def test_what_happens_to_the_file_during_a_run_ends_it_and_all_records_are_kept(skipping, tmp_path, what, said, after):
    if after == 1 and what is edit:
        after = 2  # every append looks at the size, the end of the run at the bytes
    RecordFile(Path("run")).append(earlier(skipping))
    existing = runner.recorded(Path("run"), resume=True)
    todo = plan(skipping, [], "no GPU")
    assert len(todo.tasks) == len(SIZES)
    with (
        pytest.raises(InputError, match=rf"^run/{RECORDS}: {said}.*; all records of the run \(\d\) are in ") as caught,
        runner.open_run(Path("run"), existing, [], [], skipping) as (store, _),
    ):
        runner.run(skipping, todo, store, Meddler(what, after))
    kept = tmp_path / "run-kept"
    again = "to continue, repeat the command with --resume, and with that folder as --out"
    assert str(caught.value).endswith(f" are in {kept}; {again}")
    # The case that was under way too.
    lines = len(SIZES) if after == len(SIZES) or what is edit else after + 1
    assert [one.n for one in RecordFile(kept).read()] == [SIZES[0], *SIZES[:lines]] or what is edit
    assert len(RecordFile(kept).read()) == 1 + lines
    (entry,) = json.loads((kept / ENVIRONMENT).read_text())
    assert entry["config"].endswith("tiny.yaml")
    # Nothing that was there is touched.
    if what is rename:
        assert len(RecordFile(Path("moved")).read()) == 1 + after
        assert not Path("run").exists()


def test_a_second_copy_does_not_write_over_the_first(tmp_path):
    for number in ("", "-2", "-3"):
        with RecordFile(tmp_path / "run") as store:
            store.append(record())
            store.path.unlink()
            with pytest.raises(InputError, match=f"are in {re.escape(str(tmp_path))}/run-kept{number}; "):
                store.check()


def test_the_command_ends_with_code_2_where_its_records_are_gone(skipping, monkeypatch):  # noqa: ARG001
    monkeypatch.setattr(ConsoleWatcher, "ends", lambda *_: shutil.rmtree("run", ignore_errors=True))
    code, said = command("run", "tiny.yaml", "--out", "run")
    assert code == 2
    assert "are in" in said
    assert "0 ok" not in said


# What cannot be written


def test_a_full_disk_loses_nothing_that_was_written_and_is_said_in_one_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(rescue.tempfile, "gettempdir", lambda: str(tmp_path / "other"))
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with RecordFile(tmp_path / "run") as store:
        store.append(record())
        whole = store.path.read_bytes()
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 50, hard))
        try:
            with pytest.raises(InputError) as caught:
                store.append(record(n=2))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    assert str(caught.value) == (
        f"{store.path}: cannot be written: File too large; nor can its records be written anywhere else"
    )
    assert store.path.read_bytes() == whole
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["other", RECORDS, "run"]
    assert [one.n for one in store.read()] == [1000]


@pytest.mark.parametrize("call", ["write", "fsync"])
def test_what_fits_on_no_disk_but_another_is_kept_there(tmp_path, monkeypatch, call):
    monkeypatch.setattr(rescue.tempfile, "gettempdir", lambda: str(tmp_path / "other"))
    real = getattr(os, call)

    def full(descriptor, *rest):
        if not Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(tmp_path / "other"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(descriptor, *rest)

    with RecordFile(tmp_path / "run") as store:
        store.append(record())
        monkeypatch.setattr(regular.os, call, full)
        with pytest.raises(InputError, match=r"No space left on device; all records of the run \(2\) are in .*/other/"):
            store.append(record(n=2))
        monkeypatch.undo()
    assert len(RecordFile(tmp_path / "other" / "run-kept").read()) == 2
    assert len(store.read()) == 1
    assert not (tmp_path / "run-kept").exists()


@pytest.mark.parametrize("place", ["/proc/run", "/dev/null", "tiny.yaml/below", "a" * 300])
def test_a_folder_that_cannot_be_written_is_one_sentence(skipping, place):  # noqa: ARG001
    code, said = command("run", "tiny.yaml", "--out", place)
    assert (code, said.count("\n")) == (2, 0)
    assert f"{place}: cannot be written: " in said


def test_a_folder_that_is_read_only_is_one_sentence(skipping, monkeypatch):  # noqa: ARG001
    real = os.open

    def refuse(path, flags, *rest, **named):
        if flags & (os.O_WRONLY | os.O_RDWR) and "run" in str(path):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))
        return real(path, flags, *rest, **named)

    Path("run").mkdir()
    monkeypatch.setattr(os, "open", refuse)
    assert command("run", "tiny.yaml", "--out", "run") == (
        2,
        f"run/{LOCK}: cannot be written: Read-only file system",
    )


# Files that are none


def folder_of(path):
    path.mkdir()


def dangling(path):
    path.symlink_to("nowhere")


def device(path):
    path.symlink_to("/dev/full")


@pytest.mark.parametrize("make", [folder_of, os.mkfifo, dangling, device])
@pytest.mark.parametrize("name", [RECORDS, "worker.log", ENVIRONMENT, LOCK])
@pytest.mark.timeout(60)
def test_only_files_are_opened_and_what_is_none_stays_as_it_is(skipping, monkeypatch, name, make):  # noqa: ARG001
    monkeypatch.setattr(runner.environment, "describe", lambda *_: {})
    Path("run").mkdir()
    path = Path("run", name)
    make(path)
    code, said = command("run", "tiny.yaml", "--out", "run", "--resume")
    assert code == 2
    assert said.startswith(f"run/{name}: ")
    assert "\n" not in said
    assert path.is_symlink() or path.is_dir() or path.is_fifo()
    assert not Path("run", "nowhere").exists()
    if name == RECORDS:
        for words in (
            ["report"],
            ["report", "--full"],
            ["compare", "run"],
            ["best"],
            ["export", "--to", "a.csv"],
            ["report", "--html=a"],
        ):
            code, said = command(*words, "run")
            assert (code, said.startswith(f"run/{RECORDS}: ")) == (2, True), said
        # A name means the newest run that can be read.
        Path("reports").mkdir()
        for day, made in ((1, False), (2, True)):
            one = Path("reports", f"quick-2026010{day}-000000")
            one.mkdir()
            make(one / RECORDS) if made else RecordFile(one).append(record())
        assert newest("quick", measured=True).name == "quick-20260101-000000"


SPOILT = [b"", b"{}", b"null", b"1", b"[1]", b'[{"a": 1}, null]', b"\xff\xfe", b"[{", b"[" * 100_000, b'"\xed\xa0\x80"']


@pytest.mark.parametrize("content", SPOILT, ids=lambda content: repr(content[:20]))
def test_an_environment_that_cannot_be_continued_is_left_as_it_is_and_said(skipping, content):  # noqa: ARG001
    Path("run").mkdir()
    Path("run", ENVIRONMENT).write_bytes(content)
    code, said = command("run", "tiny.yaml", "--out", "run")
    assert (code, said) == (
        2,
        f"run/{ENVIRONMENT}: is not a JSON list with one object per start of a run; repair it or move it away",
    )
    assert Path("run", ENVIRONMENT).read_bytes() == content
    assert [path.name for path in Path("run").iterdir()] == [ENVIRONMENT]
    # It is no obstacle to a report.
    RecordFile(Path("run")).append(record(median_seconds=1.0))
    assert command("report", "run")[0] == 0


@pytest.mark.parametrize("name", ["[/]", "[bold]", "[/red] x", "a\nb", "\\[", "round-1/[/]"])
def test_a_folder_may_be_called_what_it_likes(skipping, name):  # noqa: ARG001
    for options in ([], ["--resume"]):
        code, said = command("run", "tiny.yaml", "--out", name, *options)
        assert code == 1, said
        assert f"records in {name}. To show them: gravbench report {shlex.quote(name)}\n" in said
    for n in SIZES:
        times = {"samples_seconds": [1.0] * 20, "median_seconds": 1.0, "ci_low": 1.0, "ci_high": 1.0}
        for folder in (name, "other"):
            RecordFile(Path(folder)).append(record(n=n, error_max=1e-9, error_rms=1e-9, **times))
    for words in (
        ["report", name], ["report", name, "--full"],
        ["report", name, "--markdown"], ["report", name, "--html", "[/].html"], ["best", name],
        ["compare", name, "other"], ["export", name, "--to", "[/].csv"],
    ):  # fmt: skip
        code, said = command(*words)
        assert code == 0, said


def test_a_folder_whose_name_is_no_text_is_named_by_its_bytes(skipping, monkeypatch, capsys):  # noqa: ARG001
    for words in (["run", "tiny.yaml", "--out"], ["report"]):
        monkeypatch.setattr(sys, "argv", ["gravbench", *words, os.fsdecode(b"own\xff")])
        with pytest.raises(SystemExit):
            main()
    assert r"records in own\udcff. To show them: " in capsys.readouterr().out


# Stopping


@pytest.fixture
def signals():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    yield numbers
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_first_signal_stops_and_those_that_follow_do_not_disturb_the_cleaning_up(signals, first):
    cleaned = []

    def work():
        try:
            with hinting("inner"):
                os.kill(os.getpid(), first)
                time.sleep(5)
        finally:
            for number in signals:
                os.kill(os.getpid(), number)
            time.sleep(0.01)
            cleaned.append(True)

    with pytest.raises(Stopped) as stopped, stopping(), hinting("outer"):
        work()
    for number in signals:
        os.kill(os.getpid(), number)
    assert cleaned
    assert (stopped.value.exit_code, stopped.value.hint) == (128 + first, "inner")


def test_a_signal_that_the_process_was_told_to_ignore_stays_ignored_and_others_are_set_back(signals):
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    before = [signal.getsignal(number) for number in signals]
    with stopping():
        os.kill(os.getpid(), signal.SIGHUP)
        time.sleep(0.01)
        assert signal.getsignal(signal.SIGTERM) != before[1]
    assert [signal.getsignal(number) for number in signals] == before


class Unplugged(io.StringIO):
    """A terminal that is gone from some moment on; not for the thread that draws again and again."""

    gone = False

    def write(self, text):
        if self.gone and threading.current_thread() is threading.main_thread():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(text)


def test_a_stop_is_told_even_where_the_terminal_is_gone():
    terminal = Unplugged()

    def work():
        with ConsoleWatcher(Console(file=terminal, force_terminal=True)):
            terminal.gone = True
            raise Stopped(signal.SIGHUP)

    with pytest.raises(Stopped):
        work()


def test_output_that_cannot_be_written_is_one_sentence(tmp_path):
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "gravbench", "source", "naive"],
            stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, "gravbench: standard output: No space left on device\n")
