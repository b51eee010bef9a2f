"""What is asked of a device before a toolkit has opened it, and while it works, whoever made it.

Devices belong to families: those that one driver knows, and that are chosen by one word (``cuda:0``, ``cuda:1``). The
file of ``gravbench.toolkits`` that is named after this word has the family as ``FAMILY``. Each toolkit names its family
in its ``ENTRY``; one whose devices no other toolkit uses has both in its own file. ``gravbench.toolkits.devices`` asks
families, and nothing else outside of this package asks for a driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import ClassVar, Protocol

from gravbench.model.device import CardKind, Device, Reading, Target


class Sensor(Protocol):
    """What reads one device."""

    def __call__(self, with_energy: bool = True) -> Reading:
        """Read it; without the energy that may take a tenth of the time."""


class Family(ABC):
    """The devices of one driver; none of its methods opens a device for computing."""

    words: ClassVar[tuple[str, ...]] = ()
    """What people also call such a device, beside the word that chooses it."""
    needs: ClassVar[str] = "a device"
    """What a toolkit needs that runs on these devices, such as ``an NVIDIA GPU``."""
    by_name: ClassVar[bool] = False
    """Whether a command uses these devices only where it names one, or a toolkit of theirs and no device."""
    shared: ClassVar[bool] = False
    """Whether its devices may be those of another family, or the processor: nothing is measured beside one of them."""
    variables: ClassVar[tuple[str, ...]] = ()
    """How the names of the environment variables begin that decide what the driver does."""
    distributions: ClassVar[tuple[str, ...]] = ()
    """Packages beside those of its toolkits that may change a result."""
    chooser: ClassVar[str] = ""
    """The environment variable that chooses the devices a process sees, if there is one."""
    check: ClassVar[str] = "reinstall it"
    """What to do about a toolkit that is installed and does not work; the commands that install it follow."""

    @abstractmethod
    def devices(self) -> tuple[list[Device], str | None]:
        """List the devices that this process may use, and say why there are none where there are none."""

    def mend(self) -> str:
        """Say what to do about a device that is there and not found; empty where nothing is known."""
        return ""

    def target(self, device: Device) -> Target | None:  # noqa: ARG002
        """Return what kernels are compiled for ahead, without the device; None where they are not."""
        return None

    def card(self) -> CardKind | None:
        """Return the device that toolkits compute on in this thread; None where it is unknown."""
        return None

    def expose(self, devices: Sequence[Device]) -> None:  # noqa: B027 - not every driver can be told
        """Let the libraries that this process has not imported yet see these devices alone, in this order."""

    def preload(self) -> None:  # noqa: B027 - not every driver has something
        """Import and initialize what every toolkit of the family uses, which opens no device."""

    def sensor(self, device: Device) -> AbstractContextManager[Sensor | None]:  # noqa: ARG002
        """Open a device for readings; None where it cannot be read."""
        return nullcontext()
