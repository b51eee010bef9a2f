"""A launcher that runs entries in this process by tests' own emulator."""

import ctypes
import re
import subprocess
import tempfile
from pathlib import Path

from emulator import COMPILER, HEADERS, OPTIONS, SHIM
from gravbench.judging.launching import Answer, accelerations_of, arrays_of, calls_of


class InProcess:
    def run(self, entry, bodies):
        arrays = arrays_of(entry, bodies)
        text = re.sub(r'asm volatile\(.*', "", entry.text)
        with tempfile.TemporaryDirectory() as folder:
            source, library = Path(folder) / "k.cpp", Path(folder) / "k.so"
            calls = calls_of(entry, bodies)
            wrappers = []
            for kernel in {c.kernel for c in calls}:
                signature = re.search(rf"\b{kernel}\((.*?)\)\s*\{{", text, re.DOTALL).group(1)
                names = ", ".join(one.split()[-1].lstrip("*") for one in signature.split(","))
                wrappers.append(f'extern "C" bool entry_{kernel}(int gx, int gy, int t, {signature}) {{ return launch(gx, gy, t, [=] {{ {kernel}({names}); }}); }}\n')
            source.write_text(HEADERS + SHIM + "\n".join(f"#define {k} {v}" for k, v in entry.defines.items()) + "\n" + text + "".join(wrappers))
            subprocess.run([COMPILER, *OPTIONS, "-shared", "-o", library, source], check=True)
            loaded = ctypes.CDLL(str(library))
            for c in calls:
                real = ctypes.c_float if entry.head.precision == "float32" else ctypes.c_double
                args = [ctypes.c_void_p(arrays[a].ctypes.data) if isinstance(a, str) else ctypes.c_int(a) if isinstance(a, int) else real(a) for a in c.arguments]
                f = getattr(loaded, f"entry_{c.kernel}"); f.restype = ctypes.c_bool
                assert f(c.grid[0], c.grid[1], c.block[0] * c.block[1], *args)
        return Answer(accelerations_of(entry, arrays, len(bodies)))
