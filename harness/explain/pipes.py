"""Which part of a multiprocessor an instruction of its machine code is for.

NVIDIA, CUDA binary utilities, instruction set reference, Turing to Blackwell; the pipes as Nsight Compute names them.
"""

from __future__ import annotations

import re

PIPES = ("FMA", "ALU", "XU", "load-store", "tensor", "FP64", "uniform", "control", "other")
"""In the order of tables. The XU computes roots and conversions; uniform instructions are those of a whole warp."""

_OF = {
    "FMA": "FFMA FMUL FADD FFMA32I FMUL32I FADD32I FFMA2 FMUL2 FADD2 IMAD HFMA2 HMUL2 HADD2 HFMA2_32I HADD2_32I HMUL2_32I "
    "IDP IDP4A IMUL",
    "ALU": "IADD3 IADD IABS LEA LOP3 LOP PLOP3 SHF SHL SHR IMNMX VIMNMX VIMNMX3 VIADD VIADDMNMX VABSDIFF VABSDIFF4 BMSK "
    "SGXT FMNMX FMNMX3 FSEL FSET FSETP ISETP SEL PRMT MOV MOV32I CS2R P2R R2P HMNMX2 HSET2 HSETP2 LEPC FCHK FLO BREV "
    "VOTE VOTEU MATCH REDUX",
    "XU": "MUFU F2F F2I I2F I2FP F2IP FRND POPC F2FP",
    "load-store": "LDS STS LDG STG LDL STL LD ST LDSM STSM LDC ATOM ATOMS ATOMG RED REDG SHFL MOVM LDGSTS CCTL MEMBAR "
    "ERRBAR S2R S2UR LDTM STTM UBLKCP UTMALDG SYNCS QSPC",
    "tensor": "HMMA IMMA DMMA BMMA HGMMA IGMMA QGMMA BGMMA QMMA OMMA UTCHMMA UTCQMMA",
    "FP64": "DFMA DMUL DADD DSETP DMNMX",
    "control": "BRA BRX JMP JMX BSSY BSYNC BREAK EXIT RET CALL BAR WARPSYNC YIELD NANOSLEEP NOP DEPBAR BMOV BPT KILL "
    "WARPGROUP ENDCOLLECTIVE ELECT ACQBULK PREEXIT RPCMOV",
}
_PIPE = {opcode: pipe for pipe, opcodes in _OF.items() for opcode in opcodes.split()}

ROOT = re.compile(r"MUFU\.RSQ\w*")
"""An inverse square root; in float64 its approximation, which is refined."""


def pipe_of(opcode: str) -> str:
    """Return the pipe of an opcode with or without its suffixes, ``other`` for one that is not known."""
    name = opcode.partition(".")[0]
    # A register set to a small number is what the FMA pipes do where the ALU is busy.
    if name in _PIPE:
        return "FMA" if opcode.startswith("HFMA2.MMA") else _PIPE[name]
    # Instructions of a whole warp begin with a U: UIADD3, ULDC, USHF.
    return "uniform" if name.startswith("U") or name in ("R2UR", "CREDUX") else "other"


def is_root(opcode: str) -> bool:
    """Tell whether it is the inverse square root of an interaction."""
    return ROOT.fullmatch(opcode.replace(".FTZ", "")) is not None
