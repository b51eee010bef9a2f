"""Compile CUDA C by NVRTC: a program for a fresh, confined interpreter, which imports nothing of gravbench.

Arguments: NVRTC's library and its options. It reads the text from its input, and writes the machine code to its output
and NVRTC's remarks to its standard error. It ends with 1 where NVRTC refuses the text.
"""

import ctypes
import sys
from pathlib import Path


def fetched(library: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    """Return something that NVRTC has of a program: ProgramLog or CUBIN."""
    size = ctypes.c_size_t()
    getattr(library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
    content = ctypes.create_string_buffer(size.value)
    getattr(library, f"nvrtcGet{what}")(program, content)
    return content.raw


def main() -> None:
    """Compile."""
    # The one of a whole CUDA toolkit does not look beside itself, and here it finds nothing by the system's list.
    for part in Path(sys.argv[1]).parent.glob("libnvrtc-builtins.so*"):
        ctypes.CDLL(str(part))
    library, program = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p()
    options = [word.encode() for word in sys.argv[2:]]
    listed = (ctypes.c_char_p * len(options))(*options)
    text = ctypes.c_char_p(sys.stdin.buffer.read())
    library.nvrtcCreateProgram(ctypes.byref(program), text, b"kernel.cu", 0, None, None)
    refused = library.nvrtcCompileProgram(program, len(options), listed)
    sys.stderr.buffer.write(fetched(library, program, "ProgramLog").rstrip(b"\0"))
    if refused:
        sys.exit(1)
    sys.stdout.buffer.write(fetched(library, program, "CUBIN"))


if __name__ == "__main__":
    main()
