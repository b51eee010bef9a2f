"""The source of a case: what its toolkit runs of the variant and, where a step is timed, of the integrator."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from gravbench.model import identity, interaction_files
from gravbench.model.case import Case
from gravbench.model.identity import CodeParts
from gravbench.model.quantities import QUANTITIES
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.stem_code import code_parts as parts_of_stem
from gravbench.model.stem_code import code_sha256 as sha256_of_stem
from gravbench.model.variant import Variant

INTEGRATOR = BUILT_IN / "parts" / "integrate.py"


def code_sha256(case: Case, variant: Variant) -> str:
    """Hash what runs where ``case`` is measured with ``variant`` as it is now: ``Record.code_sha256``.

    Raises:
        InputError: the interaction of the case cannot be read.
    """
    computed = interaction_files.find(case.interaction)
    stems = [sha256_of_stem(stem, case.toolkit, computed) for stem in _stems(case, variant)]
    return joined_code_sha256(stems)


def code_parts(case: Case, variant: Variant) -> list[CodeParts]:
    """Return what ``code_sha256`` is the hash of: the code of the variant, then that of the integrator of a step.

    Raises:
        InputError: the interaction of the case cannot be read.
    """
    computed = interaction_files.find(case.interaction)
    return [parts_of_stem(stem, case.toolkit, computed) for stem in _stems(case, variant)]


def joined_code_sha256(stems: Sequence[str]) -> str:
    """Return the hash of a case of the hashes of its stems: that of the one, or of all."""
    return stems[0] if len(stems) == 1 else identity.joined_sha256(*stems)


def _stems(case: Case, variant: Variant) -> list[Path]:
    return [variant.path, *([INTEGRATOR] if QUANTITIES[case.timed].steps else [])]
