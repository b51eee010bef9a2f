"""A case: one point of a sweep, everything that decides what is computed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from gravbench.model.interaction import GRAVITY
from gravbench.model.variant import Dtype

Value = bool | int | float | str

CONTENTS = ("bodies_file_sha256", "interaction_sha256")
"""Fields of a case that tell two files of one name apart."""


class Case(BaseModel):
    """One point of a sweep: everything that decides what is computed, and nothing about how it is timed.

    ``bodies`` is a generator's name or the path of a file, ``subset`` how ``n`` bodies are taken from a
    file, ``eps`` the softening length. ``interaction`` is a packaged one's name or the path of a file. ``timed`` is
    force, step or call; ``integrator`` and its ``dt`` belong to a step and are None otherwise.

    Two files of one name are two cases: ``bodies_file_sha256`` is the hash of the bytes of a file of bodies,
    ``interaction_sha256`` that of the code of an interaction's file. They are None for what gravbench brings along by
    its name, and in records from before they were noted.
    """

    model_config = ConfigDict(frozen=True)

    variant: str
    toolkit: str
    axes: dict[str, Value]
    n: int
    dtype: Dtype
    bodies: str
    subset: str
    seed: int
    eps: float
    timed: str
    interaction: str = GRAVITY
    integrator: str | None = None
    dt: float | None = None
    bodies_file_sha256: str | None = None
    interaction_sha256: str | None = None

    @property
    def key(self) -> str:
        """A name for this case that does not depend on the order of its parts or of the sweep."""
        parts = self.model_dump(include=set(Case.model_fields))
        # Cases without a step, or without files, have the keys they had before these were noted.
        for name in ("integrator", "dt", *CONTENTS):
            if parts[name] is None:
                del parts[name]
        # Likewise those of gravity, from before there were other interactions.
        if self.interaction == GRAVITY:
            del parts["interaction"]
        else:
            parts["interaction"] = Path(self.interaction).name
        parts["bodies"] = Path(self.bodies).name
        text = json.dumps(parts, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def contents(self) -> dict[str, str]:
        """Tell this case's files from others of the same names: the hash of each by its field, empty without any."""
        return {name: value for name in CONTENTS if (value := getattr(self, name)) is not None}

    @property
    def label(self) -> str:
        """The case in a few words, for progress and messages."""
        axes = " ".join(f"{name}={value}" for name, value in self.axes.items())
        interaction = "" if self.interaction == GRAVITY else f"interaction={Path(self.interaction).name}"
        timed = "" if self.timed == "force" else f"timed={self.timed}"
        step = "" if self.dt is None else f"{self.integrator} dt={self.dt:g}"
        words = [self.variant, self.toolkit, f"n={self.n}", self.dtype, axes, interaction, timed, step]
        return " ".join(filter(None, words))

    @property
    def interactions(self) -> int:
        """Directed pairs of one evaluation: every body with every body, itself included."""
        return self.n * self.n
