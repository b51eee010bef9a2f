"""clangd is told of each file of CUDA C what its compiler is told: headers before it, folders and macros."""

import json
from pathlib import Path

import pytest

from conftest import ROOT
from gravbench.explain import compile_commands
from gravbench.toolkits import nvrtc as library
from gravbench.toolkits.interface import FLAGS


@pytest.fixture(scope="module")
def entries():
    return {Path(entry["file"]).relative_to(ROOT).as_posix(): entry for entry in compile_commands.commands(ROOT)}


def test_each_file_of_cuda_c_has_one_command(entries):
    files = [path for folder in ("variants", "harness") for path in (ROOT / folder).rglob("*.cu")]
    assert sorted(entries) == sorted(path.relative_to(ROOT).as_posix() for path in files)
    assert len(compile_commands.commands(ROOT)) == len(entries)


@pytest.mark.skipif(not library.is_usable(), reason="no NVRTC")
def test_the_compiler_finds_every_include_and_macro_by_these_options(tmp_path):
    from nvrtc import QUICK, compile_cuda

    (tmp_path / "build").mkdir()
    (tmp_path / "harness").mkdir()
    compile_commands.write(tmp_path)
    for entry in json.loads((tmp_path / "compile_commands.json").read_text("utf-8")):
        path = Path(entry["file"])
        options = entry["arguments"][len(compile_commands.CLANG) : -1]
        text = f'#include "{path}"\n'
        _, ptx, _ = compile_cuda(text, "compute_90", [*FLAGS, *QUICK, "--diag-suppress=177", *options])
        assert ".entry" in ptx


def test_an_installation_without_a_clone_is_refused_in_a_sentence(monkeypatch, capsys):
    monkeypatch.setattr(compile_commands, "runs_of_the_clone", lambda: None)
    assert compile_commands.main([]) == 2
    assert "no clone of gravbench; accepted: an editable installation of one" in capsys.readouterr().err
