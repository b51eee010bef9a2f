"""A stranger's program can neither read nor write a file, reach the network, start a process nor outlive its end."""

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from conftest import wait_until
from gravbench.errors import InputError
from gravbench.sandbox import compilers, confined
from gravbench.sandbox.compilers import CompilerError, compile_cuda, compile_host, python_files, run_tool
from gravbench.sandbox.confined import Limits, Protections, protections, run_confined
from gravbench.toolkits import nvrtc

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="programs are confined on Linux alone")

ONE = Limits(seconds=20, memory_bytes=1 << 30, processes=1, file_bytes=1 << 20)
SEVERAL = Limits(seconds=20, memory_bytes=1 << 30, processes=16, file_bytes=1 << 20)
SECRET = "nobody may know this"
needs_compiler = pytest.mark.skipif(compilers.shutil.which("g++") is None, reason="no g++ on PATH")

ONE_WAY = [pytest.param(way, marks=pytest.mark.slow) for way in (("namespaces",), ("landlock", "seccomp"))]


@pytest.fixture(params=[*ONE_WAY, confined.MEASURES], ids="+".join)
def measures(request, monkeypatch):
    """Confine by these alone, as on a system that grants no others."""
    if missing := set(request.param) - set(confined.measures()):
        pytest.skip(f"this system does not grant {', '.join(sorted(missing))}")
    monkeypatch.setattr(confined, "measures", lambda: request.param)
    return request.param


@pytest.fixture
def all_measures():
    if missing := set(confined.MEASURES) - set(confined.measures()):
        pytest.skip(f"this system does not grant {', '.join(sorted(missing))}")


def run(code, limits=ONE, **options):
    command = [sys.executable, "-I", "-S", "-c", code]
    return run_confined(command, readable=python_files(), limits=limits, **options)


def refused(code, error, limits=ONE, **options):
    """Tell that a program ends with this exception."""
    ended = run(code, limits, **options)
    assert ended.exit_code == 1, ended
    said = ended.stderr.decode().strip().splitlines()[-1]
    assert any(said.startswith(name) for name in error.split("|")), said


@pytest.mark.usefixtures("measures")
def test_a_program_has_its_input_and_its_output():
    ended = run("import sys; print(sys.stdin.read()[::-1]); sys.exit(3)", stdin=b"abc")
    assert (ended.stdout, ended.exit_code, ended.signal, ended.reason) == (b"cba\n", 3, None, "")


@pytest.mark.usefixtures("measures")
def test_no_file_can_be_read_that_was_not_named(tmp_path):
    secret, named = tmp_path / "secret", tmp_path / "named"
    secret.write_text(SECRET)
    named.write_text("known")
    assert run_confined(
        [sys.executable, "-I", "-S", "-c", f"print(open({str(named)!r}).read())"],
        readable=[*python_files(), named],
        limits=ONE,
    ).stdout == b"known\n"  # fmt: skip
    for path in (secret, "/etc/passwd", "/proc/self/environ", "/dev/mem"):
        refused(f"print(open({str(path)!r}).read())", "PermissionError|FileNotFoundError")
    refused(f"import os; os.listdir({str(tmp_path)!r})", "PermissionError|FileNotFoundError")


@pytest.mark.usefixtures("measures")
def test_no_file_can_be_written_but_in_the_folder_for_that(tmp_path):
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    outside.mkdir()
    for path in (outside / "new", "/new", "/tmp/new", "/usr/lib/new"):
        code = f"open({str(path)!r}, 'w')"
        refused(code, "PermissionError|FileNotFoundError|OSError: [Errno 30]", writable=inside)
    made = "open('new', 'w').write('made'); import os; print(os.getcwd(), os.environ['TMPDIR'])"
    ended = run(made, writable=inside)
    assert ended.stdout.decode() == f"{inside} {inside}\n"
    assert (inside / "new").read_text() == "made"
    assert list(outside.iterdir()) == []


@pytest.mark.usefixtures("all_measures")
def test_what_a_program_writes_cannot_be_executed(tmp_path):
    code = "import os; open('own', 'w').write('#!/bin/sh\\n'); os.chmod('own', 0o700); os.execv('./own', ['own'])"
    refused(code, "PermissionError", SEVERAL, writable=tmp_path)


@pytest.mark.usefixtures("measures")
def test_the_network_cannot_be_reached():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)"
        refused(code, "PermissionError|ConnectionRefusedError|OSError: [Errno 101]")


@pytest.mark.usefixtures("measures")
def test_the_environment_is_empty_and_no_file_is_open(monkeypatch):
    monkeypatch.setenv("SECRET", SECRET)
    found = """
import os
opened = []
for number in range(256):
    try:
        os.fstat(number)
        opened.append(number)
    except OSError:
        pass
# Python itself sets one variable.
print([name for name in os.environ if name != "LC_CTYPE"], opened)
"""
    assert run(found).stdout == b"[] [0, 1, 2]\n"


@pytest.mark.usefixtures("all_measures")
def test_a_single_process_starts_no_other():
    refused("import os; os.fork()", "PermissionError")
    refused("import os; os.posix_spawn('/bin/true', ['true'], {})", "PermissionError|BlockingIOError")
    refused("import _thread; _thread.start_new_thread(print, ())", "RuntimeError: can't start new thread")
    ended = run("import os; os.execv('/usr/bin/env', ['env'])")
    assert ended.exit_code is None
    assert ended.reason == "it asked the system for what is denied to it"


@pytest.mark.usefixtures("all_measures")
def test_a_fork_bomb_starts_nothing():
    code = """
import os
forks = 0
for attempt in range(10_000):
    try:
        os.fork()
        forks += 1
    except PermissionError:
        pass
print(forks)
"""
    assert run(code).stdout == b"0\n"


def test_nothing_outlives_the_program(measures, tmp_path):
    """A grandchild that has left its session, if it may, and ignores what it can."""
    code = """
import os, signal, time
if os.fork() == 0:
    try:
        os.setsid()
    except PermissionError:
        pass
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        open('begun', 'w').close()
        time.sleep(1.5)
        open('survived', 'w').close()
    os._exit(0)
while not os.path.exists('begun'):
    time.sleep(0.01)
"""
    ended = run(code, SEVERAL, writable=tmp_path)
    assert ended.exit_code == 0, ended
    assert (tmp_path / "begun").exists()
    if measures == ("landlock", "seccomp"):
        assert b"setsid" not in ended.stderr
    time.sleep(2)
    assert not (tmp_path / "survived").exists()


@pytest.mark.usefixtures("measures")
def test_other_processes_get_no_signal():
    refused(f"import os, signal; os.kill({os.getpid()}, signal.SIGTERM)", "PermissionError|ProcessLookupError")


@pytest.mark.usefixtures("measures")
def test_time_is_limited():
    begin = time.monotonic()
    ended = run("while True: pass", Limits(0.7, 1 << 30, 1, 1 << 20))
    assert ended.reason == "it did not end within 0.7 s"
    ended = run("import time; time.sleep(60)", Limits(0.7, 1 << 30, 1, 1 << 20))
    assert ended.reason == "it did not end within 0.7 s"
    assert time.monotonic() - begin < 10


def test_a_supervisor_that_does_not_end_either_is_ended(monkeypatch):
    monkeypatch.setattr(confined, "GRACE_SECONDS", -9.5)
    assert run("import time; time.sleep(60)", Limits(10, 1 << 30, 1, 1 << 20)).reason == "it did not end within 10 s"


KILLED = """
import sys
from pathlib import Path
from gravbench.sandbox import confined
from gravbench.sandbox.compilers import python_files
confined.measures = lambda: {measures!r}
code = "import time; open('begun', 'w'); time.sleep(2); open('survived', 'w')"
limits = confined.Limits(20, 1 << 30, 1, 1 << 20)
command = [sys.executable, "-I", "-S", "-c", code]
confined.run_confined(command, readable=python_files(), writable=Path({folder!r}), limits=limits)
"""


def test_a_program_ends_with_the_process_that_runs_it(measures, tmp_path):
    script = KILLED.format(measures=measures, folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", script]) as judge:
        wait_until((tmp_path / "begun").exists, 20)
        judge.kill()
    time.sleep(2.5)
    assert not (tmp_path / "survived").exists()


@pytest.mark.usefixtures("measures")
def test_memory_is_limited():
    refused("bytearray(1 << 29)", "MemoryError", Limits(20, 1 << 28, 1, 1 << 20))


@pytest.mark.usefixtures("measures")
def test_output_is_limited():
    code = "import os, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nwhile True: os.write(1, b'a' * 1000)"
    ended = run(code, Limits(20, 1 << 30, 1, 1 << 14))
    assert ended.reason == "it wrote more than 16,384 bytes"
    assert len(ended.stdout) == 1 << 14


@pytest.mark.usefixtures("measures")
def test_a_command_that_is_not_there_is_one_sentence(tmp_path):
    with pytest.raises(InputError, match=r"a program could not be confined: .*No such file"):
        run_confined([tmp_path / "nothing"], limits=ONE)


@pytest.mark.usefixtures("all_measures")
def test_a_measure_that_fails_later_lets_nothing_run(tmp_path, monkeypatch):
    """What a system granted when it was tried is never left out."""
    with pytest.raises(InputError, match="could not be confined: mount"):
        run_confined([sys.executable, "-c", ""], readable=[tmp_path / "nothing"], limits=ONE)
    monkeypatch.setattr(confined.sys, "platform", "darwin")
    with pytest.raises(InputError, match="on Linux alone; this is darwin"):
        run_confined([sys.executable, "-c", ""], limits=ONE)


def test_what_a_system_lacks_is_said():
    assert Protections("a", "b", "c", "d", "e").missing == ()
    lacking = Protections("", "b", "", "d", "e").missing
    assert [sentence.partition(":")[0] for sentence in lacking] == [
        "this system does not protect files", "this system does not protect processes",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("granted", "missing"),
    [
        (confined.MEASURES, []),
        (("landlock",), ["network", "processes"]),
        (("seccomp",), ["files"]),
        (("namespaces",), ["processes"]),
        ((), ["files", "network", "processes"]),
    ],
)
def test_each_protection_needs_one_of_its_measures(monkeypatch, granted, missing):
    monkeypatch.setattr(confined, "measures", lambda: granted)
    said = protections().missing
    assert [sentence.removeprefix("this system does not protect ").partition(":")[0] for sentence in said] == missing


READS = {
    "include": '#include "{secret}"',
    "include of the system": "#include <{secret}>",
    "relative include": '#include "../../../../../../../..{secret}"',
    "include_next": '#include_next "{secret}"',
    "computed include": '#define FILE "{secret}"\n#include FILE',
    "embed": '#embed "{secret}"',
    "dependency": '#pragma GCC dependency "{secret}"\n',
    "incbin": 'asm(".incbin \\"{secret}\\"");',
    "include of the assembler": 'asm(".include \\"{secret}\\"");',
    "environment": '#include "/proc/self/environ"',
    "probe": '#if __has_include("{secret}")\nint probed;\n#else\n#error nothing there\n#endif',
}


@needs_compiler
@pytest.mark.parametrize("text", READS.values(), ids=READS)
@pytest.mark.usefixtures("measures")
def test_the_compiler_of_the_host_reads_no_file_of_yours(tmp_path, text):
    secret, folder = tmp_path / "secret", tmp_path / "folder"
    secret.write_text(f'#error "{SECRET}"\n')
    folder.mkdir()
    with pytest.raises(CompilerError) as raised:
        compile_host(text.replace("{secret}", str(secret)), ["-c"], folder)
    assert SECRET not in str(raised.value)
    assert not (folder / "made").exists()


@needs_compiler
@pytest.mark.usefixtures("measures")
def test_the_compiler_of_the_host_compiles_and_names_lines(tmp_path):
    program = compile_host('#include <cstdio>\nint main() { std::puts("done"); }\n', ["-static"], tmp_path)
    assert run_confined([program], limits=ONE).stdout == b"done\n"
    with pytest.raises(CompilerError, match=r"own.cu, line 7: .*wrong") as raised:
        compile_host('#line 6 "own.cu"\n\nint value = wrong;\n', ["-c"], tmp_path)
    assert raised.value.places[0][:2] == ("own.cu", 7)
    said = compile_host("static_assert(__FILE__[0] == '<', \"a path\");\n", ["-c"], tmp_path)
    assert said.exists()
    assert run_tool("nm", ["made"], tmp_path).exit_code == 0


@needs_compiler
def test_a_compiler_that_does_not_end_is_stopped(tmp_path):
    endless = "constexpr int f(unsigned long n) { while (n) n -= n % 3 ? 1 : 1; return 0; }\nint x[f(~0ul) + 1];\n"
    limits = Limits(1, 4 << 30, 64, 64 << 20)
    options = ["-c", "-fconstexpr-ops-limit=99999999999", "-fconstexpr-loop-limit=2147483647"]
    with pytest.raises(CompilerError, match=r"g\+\+ was stopped: it did not end within 1 s"):
        compile_host(endless, options, tmp_path, limits=limits)


def test_a_compiler_that_is_not_there_is_one_sentence():
    with pytest.raises(InputError, match="there is no no-such-compiler on PATH"):
        compilers.compiler("no-such-compiler")


needs_nvrtc = pytest.mark.skipif(not nvrtc.is_usable(), reason="no NVRTC")
KERNEL = 'extern "C" __global__ void kernel(float* values) { values[threadIdx.x] = 1; }\n'


@needs_nvrtc
@pytest.mark.usefixtures("measures")
def test_nvrtc_compiles_confined():
    assert compile_cuda(KERNEL, "sm_90", ["-std=c++17"])[0][:4] == b"\x7fELF"


@needs_nvrtc
@pytest.mark.usefixtures("all_measures")
def test_nvrtc_of_a_whole_toolkit_compiles_confined(tmp_path, monkeypatch):
    """It does not look for its other part beside itself; outside, the system's list of libraries names that."""
    library, headers = compilers.nvrtc_files()
    for path in library.parent.glob("libnvrtc*"):
        (tmp_path / path.name).write_bytes(path.read_bytes().replace(b"$ORIGIN\0", b"/nobody\0"))
    monkeypatch.setattr(compilers, "nvrtc_files", lambda: (tmp_path / library.name, headers))
    assert compile_cuda(KERNEL, "sm_90")[0][:4] == b"\x7fELF"


@needs_nvrtc
@pytest.mark.parametrize("name", ["include", "include of the system", "relative include", "computed include", "probe"])
@pytest.mark.usefixtures("all_measures")
def test_nvrtc_reads_no_file_of_yours(tmp_path, name):
    secret = tmp_path / "secret"
    secret.write_text(f'#error "{SECRET}"\n')
    with pytest.raises(CompilerError, match=r"kernel.cu, line \d") as raised:
        compile_cuda(READS[name].replace("{secret}", str(secret)) + "\n" + KERNEL, "sm_90")
    assert SECRET not in str(raised.value)


def test_what_starts_for_every_program_imports_nothing_of_gravbench():
    for path in (compilers.NVRTC.with_name("launcher.py"), compilers.NVRTC):
        assert "gravbench" not in Path(path).read_text().split('"""', 2)[2]
