"""Which part of a multiprocessor an instruction of its machine code is for, and how many of them it can do in a clock.

NVIDIA, CUDA binary utilities, instruction set reference, Turing to Blackwell; the pipes as Nsight Compute names them.
The numbers of lanes are those of the CUDA C++ Programming Guide, table of the throughput of arithmetic instructions
(results per clock cycle and multiprocessor), and stand here alone. What is counted per pipe, and 128 issue slots, 128
lanes of FMA, 16 of the XU, 64 of FP64 and 32 of load-store, are what Nsight Compute's counters of an H200 agree with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

TENSOR = "tensor"
PIPES = ("FMA", "ALU", "XU", "load-store", TENSOR, "FP64", "uniform", "control", "other")
"""In the order of tables. The XU computes reciprocal square roots and conversions; uniform instructions are those of a
whole warp."""

_OF = {
    "FMA": "FFMA FMUL FADD FFMA32I FMUL32I FADD32I FFMA2 FMUL2 FADD2 IMAD HFMA2 HMUL2 HADD2 HFMA2_32I HADD2_32I "
    "HMUL2_32I IDP IDP4A IMUL",
    "ALU": "IADD3 IADD IABS LEA LOP3 LOP PLOP3 SHF SHL SHR IMNMX VIMNMX VIMNMX3 VIADD VIADDMNMX VABSDIFF VABSDIFF4 "
    "BMSK SGXT FMNMX FMNMX3 FSEL FSET FSETP ISETP SEL PRMT MOV MOV32I CS2R P2R R2P HMNMX2 HSET2 HSETP2 LEPC FCHK FLO "
    "BREV VOTE VOTEU MATCH REDUX F2FP",
    "XU": "MUFU F2F F2I I2F I2FP F2IP FRND POPC",
    "load-store": "LDS STS LDG STG LDL STL LD ST LDSM STSM LDC ATOM ATOMS ATOMG RED REDG SHFL MOVM LDGSTS CCTL MEMBAR "
    "ERRBAR S2R S2UR LDTM STTM UBLKCP UTMALDG SYNCS QSPC",
    TENSOR: "HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA BGMMA QMMA OMMA UTCHMMA UTCQMMA",
    "FP64": "DFMA DMUL DADD DSETP DMNMX",
    "control": "BRA BRX JMP JMX BSSY BSYNC BREAK EXIT RET CALL BAR WARPSYNC YIELD NANOSLEEP NOP DEPBAR BMOV BPT KILL "
    "WARPGROUP ENDCOLLECTIVE ELECT ACQBULK PREEXIT RPCMOV",
}
_PIPE = {opcode: pipe for pipe, opcodes in _OF.items() for opcode in opcodes.split()}

RSQRT = re.compile(r"MUFU\.RSQ\w*")
"""A reciprocal square root; in float64 its approximation, which is refined."""

WORK = ("arithmetic", "loads and stores", "addressing and control")
"""What an instruction is there for: the numbers of an interaction, getting and keeping them, or anything else."""

ISSUE = "issue"
ISSUE_SLOTS = 128
"""Instructions of single threads that a multiprocessor begins in a clock: its four schedulers, a warp of 32 each."""
_XU = 16
_SHARED = 32
"""Threads that shared memory, of 32 banks, serves in a clock where each reads another bank or all the same word."""
_ALU = 64
_HALF_FMA = ("sm_75", "sm_80")
"""Architectures with 64 lanes for FFMA, FMUL and FADD; all others have 128."""
_FP64 = {"sm_80": 32, "sm_90": 64, "sm_100": 64}
"""Of others: 2."""


def lanes(architecture: str) -> Mapping[str, int]:
    """Return how many threads each pipe serves in a clock on a multiprocessor, and how many instructions are issued.

    Pipes are left out where that depends on more than the architecture: a product of matrices on its shape and types.
    """
    base = architecture.rstrip("af")
    fma = 64 if base in _HALF_FMA else 128
    return {
        ISSUE: ISSUE_SLOTS, "FMA": fma, "ALU": _ALU, "XU": _XU, "load-store": _SHARED, "FP64": _FP64.get(base, 2)
    }  # fmt: skip


def passes_of(opcode: str) -> int:
    """Return how often an instruction goes through its pipe: one on pairs of numbers, such as ``FFMA2``, twice."""
    return 2 if opcode.partition(".")[0] in ("FFMA2", "FMUL2", "FADD2") else 1


def work_of(opcode: str, operands: str = "") -> str:
    """Return what an instruction is there for, one of ``WORK``: what computes with real numbers is arithmetic."""
    name, pipe = opcode.partition(".")[0], pipe_of(opcode)
    if pipe == "load-store":
        return WORK[1]
    # FLO finds the highest bit, and a product of two zeros sets a register.
    sets = name == "HFMA2" and "-RZ, RZ" in operands
    real = name.startswith(("F", "H", "D", "MUFU")) and name != "FLO" and not sets
    return WORK[0] if pipe in (TENSOR, "FP64") or (real and pipe != "control") else WORK[2]


GUESS = "0x5f3759df"
"""Less half the bits of a float, it is the guess that Newton's method begins with."""


def pipe_of(opcode: str) -> str:
    """Return the pipe of an opcode with or without its suffixes, ``other`` for one that is not known."""
    name = opcode.partition(".")[0]
    # A register set to a small number is what the FMA pipes do where the ALU is busy.
    if name in _PIPE:
        return "FMA" if opcode.startswith("HFMA2.MMA") else _PIPE[name]
    # Instructions of a whole warp begin with a U: UIADD3, ULDC, USHF.
    return "uniform" if name.startswith("U") or name in ("R2UR", "CREDUX", "LDCU") else "other"


def is_rsqrt(opcode: str, operands: str = "") -> bool:
    """Tell whether it is the reciprocal square root of an interaction, or begins one that other pipes compute."""
    return RSQRT.fullmatch(opcode.replace(".FTZ", "")) is not None or (opcode == "IADD3" and GUESS in operands)
