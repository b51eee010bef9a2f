"""The process that workers are forked from: it imports what they need, and leaves no thread."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import json, sys, threading
from gravbench.measuring import forking

for name in forking.PRELOADED[1:]:
    __import__(name)
print(json.dumps({
    "imported": [name for name in ("scipy.special", "numba.core.event", "pynvml", "numba.cuda") if name in sys.modules],
    "threads": threading.active_count(),
}))
"""


@pytest.mark.parametrize("kept", [False, True])
def test_it_imports_numba_cuda_only_where_nothing_is_kept_of_what_that_compiles(tmp_path, kept):
    (tmp_path / "gravbench").mkdir()
    if kept:
        (tmp_path / "gravbench" / "kernel.cubin").touch()
    env = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=env, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["imported"] == ["scipy.special", "numba.core.event", "pynvml", *([] if kept else ["numba.cuda"])]
    assert found["threads"] == 1
