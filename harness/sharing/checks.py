"""What ``gravbench verify`` checks: a table of functions that say what they found and what they could not decide.

A finding is a contradiction: two statements of a bundle that cannot both be true, or one that physics or this
checkout's code excludes. What cannot be decided here is no finding; it is listed with the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from gravbench.errors import InputError
from gravbench.sharing import code_checks, measured_checks, run_checks, signing
from gravbench.sharing.bundle import Bundle, root_of
from gravbench.sharing.outcome import Outcome, Signer


@dataclass(frozen=True, slots=True)
class Check:
    """A check: its name, what it proves where it finds nothing, and what decides."""

    name: str
    proves: str
    decide: Callable[[Bundle], Outcome]


@dataclass(frozen=True, slots=True)
class Answer:
    """What was found of a bundle, check by check."""

    bundle: str
    root: str
    outcomes: dict[str, Outcome] = field(default_factory=dict)

    @property
    def consistent(self) -> bool:
        """Whether no check found a contradiction."""
        return not any(outcome.findings for outcome in self.outcomes.values())

    @property
    def signer(self) -> Signer | None:
        """Whose valid signature the bundle has; None where it has none, or none that could be checked."""
        return next((outcome.signer for outcome in self.outcomes.values() if outcome.signer), None)


def every(*, all_kernels: bool) -> Sequence[Check]:
    """Return the checks in the order in which they are made and shown."""
    machine_code = partial(code_checks.machine_code, all_kernels=all_kernels)
    return (
        Check("hashes", "no file was changed, added or removed below this root", run_checks.hashes),
        Check("description", "the RO-Crate describes exactly these files", run_checks.description),
        Check("schema", "every line is a record, every field as it can be", run_checks.schema),
        Check("arithmetic", "medians, intervals, rates and errors follow from the samples", run_checks.arithmetic),
        Check("plan", "no planned result is missing, none is of another sweep", run_checks.plan),
        Check("devices", "records are of the run's devices, cards as named", run_checks.devices),
        Check("bodies", "one problem has one set of bodies, its generator's", run_checks.bodies),
        Check("tolerances", "no accepted error is above its variant's tolerance", run_checks.tolerances),
        Check("samples", "no samples are all equal, rounded or copied", measured_checks.samples),
        Check("times", "times agree with batches, readings, energy and order", measured_checks.times),
        Check("rates", "no rate is above what any multiprocessor can do", measured_checks.rates),
        Check("code", "texts are those whose hash the records name", code_checks.texts),
        Check("machine code", "texts compile to the binaries; rates are within bounds", machine_code),
        Check(signing.NAME, f"who packed these files: {signing.PROVES}", signing.check),
    )


def verify(bundle: Bundle, *, all_kernels: bool = False, say: Callable[[str], None] = lambda _: None) -> Answer:
    """Make every check of a bundle; ``say`` is told which one is being made."""
    outcomes = {}
    for check in every(all_kernels=all_kernels):
        say(check.name)
        try:
            outcomes[check.name] = check.decide(bundle)
        except InputError as error:
            # What a function of the core refuses is a finding of the check that asked it.
            outcomes[check.name] = Outcome(findings=[str(error)])
        except Exception as error:  # values that nobody thought of must end no check without a word
            outcomes[check.name] = Outcome(findings=[f"its values end the check: {error!r}"])
    return Answer(bundle.name, root_of(bundle), outcomes)
