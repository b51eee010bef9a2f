"""The source of a case: what its toolkit runs of the variant and, where a step is timed, of the integrator."""

from __future__ import annotations

from gravbench.model import identity, interaction_files
from gravbench.model.case import Case
from gravbench.model.quantities import QUANTITIES
from gravbench.model.stem_code import BUILT_IN
from gravbench.model.stem_code import code_sha256 as sha256_of_stem
from gravbench.model.variant import Variant

INTEGRATOR = BUILT_IN / "parts" / "integrate.py"


def code_sha256(case: Case, variant: Variant) -> str:
    """Hash what runs where ``case`` is measured with ``variant`` as it is now: ``Record.code_sha256``.

    Raises:
        InputError: the interaction of the case cannot be read.
    """
    computed = interaction_files.find(case.interaction)
    code = variant.code_sha256(case.toolkit, computed)
    if QUANTITIES[case.timed].steps:
        code = identity.joined_sha256(code, sha256_of_stem(INTEGRATOR, case.toolkit, computed))
    return code
