"""The page that runs the ladder in a browser: one HTML file that asks the network for nothing.

Its markup is the template page.html beside this module. Style, scripts, kernels, plans, bodies and what is known of
each record are written into it. No result of a reference is: the page adds the sums up that a kernel is judged by.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from gravbench.judging.launching import POISON
from gravbench.live import exercises
from gravbench.live.rungs import EPS, SIZES, Rung, above, changed_lines, gravity, rungs, sphere
from gravbench.live.templates import start, template
from gravbench.model.device import SOFTWARE
from gravbench.model.rounding import FLOOR, WORSE, unit
from gravbench.model.statistics import CONFIDENCE, DEPENDENT
from gravbench.verifying.comparing import DEVIATIONS, SCALE_FLOOR
from gravbench.verifying.verify import ALL_ROWS_UP_TO, SAMPLED_ROWS, TOGETHER
from gravbench.version import VERSION

HERE = Path(__file__).parent
IN_WORKER = ("comparing.js", "diagnosis.js", "judge.js")
"""Scripts of the worker that judges, in their order."""
IN_PAGE = (
    *("statistics.js", "tokens.js", "unrolling.js", "guard.js", "device.js", "launching.js", "timing.js"),
    *("judging.js", "sampling.js", "recording.js", "measuring.js", "ladder.js", "code.js", "editor.js"),
    *("head.js", "barriers.js", "checking.js", "progress.js", "exercises.js", "page.js"),
)
"""Scripts of the page itself, in their order."""
# A worker made of a text has an address that begins with blob:.
POLICY = (
    "default-src 'none'; script-src 'sha256-{script}' blob:; worker-src blob:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'"
)


def page() -> str:
    """Return the whole page.

    Raises:
        InputError: a kernel in WGSL cannot be put on the page.
    """
    script = _scripts(IN_PAGE)
    environment = Environment(
        loader=FileSystemLoader(HERE), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html").render(
        policy=POLICY.format(script=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()),
        style=Markup((HERE / "page.css").read_text("utf-8")),
        script=Markup(script),
        worker=Markup(_scripts(IN_WORKER)),
        content=Markup(_embedded(content())),
        exercises=exercises.shown(),
        version=VERSION,
    )


def _scripts(names: Sequence[str]) -> str:
    texts = "\n".join((HERE / name).read_text("utf-8") for name in names)
    return f'"use strict";\n{texts}'


def _embedded(values: Any) -> str:
    """Write JSON that can stand in a page: no end of the element is in it."""
    return json.dumps(values, separators=(",", ":")).replace("<", "\\u003c")


def content() -> dict[str, Any]:
    """Return all that the page is given, as JSON."""
    known = rungs()
    return {
        "sizes": SIZES,
        "eps2": float(np.float32(EPS**2)),
        "bodies": {str(n): _encoded(n) for n in SIZES},
        "rungs": [_rung(rung, known) for rung in known],
        "start": json.dumps(start(known)),
        "judging": _judging(),
        "confidence": {"level": CONFIDENCE, "dependent": DEPENDENT},
        "software": SOFTWARE,
        "exercises": exercises.content(),
    }


def _encoded(n: int) -> str:
    """Write the rows x, y, z, mass of the bodies as base64, little-endian float32."""
    bodies = sphere(n)
    rows = gravity().rows(bodies.position, bodies.velocity, bodies.mass)
    return base64.b64encode(np.asarray(rows, "<f4").tobytes()).decode()


def _rung(rung: Rung, known: Sequence[Rung]) -> dict[str, Any]:
    parent = above(rung, known)
    plans = {str(n): asdict(rung.plans[n]) for n in SIZES}
    for n, plan in plans.items():
        before = "\n".join(parent.plans[int(n)].texts) if parent else ""
        plan["changed"] = [changed_lines(text, before) if parent else [] for text in plan["texts"]]
    return {
        "name": rung.variant.name,
        "summary": rung.variant.summary,
        "explanation": rung.variant.explanation,
        "parent": parent.variant.name if parent else None,
        "axes": rung.axes,
        "plans": plans,
        "records": {str(n): template(rung, n) for n in SIZES},
        "edited": {str(n): template(rung, n, edited=True) for n in SIZES},
    }


def _judging() -> dict[str, Any]:
    """Return the limits on errors of a direct sum in float32, from where the harness has them."""
    return {
        "unit": unit("float32"),
        "unwritten": int(POISON["float32"][1]),
        "floor": {"max": FLOOR.max, "rms": FLOOR.rms, "scale": SCALE_FLOOR},
        "worse": {"max": WORSE.max, "rms": WORSE.rms},
        "deviations": DEVIATIONS,
        "together": TOGETHER,
        "allRowsUpTo": ALL_ROWS_UP_TO,
        "sampledRows": SAMPLED_ROWS,
    }
