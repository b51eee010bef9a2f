"""The suite that asv runs: a few cases, measured once per commit by the harness, and what asv tracks of them.

asv calls bigger worse, so the speed is tracked as time. It takes this file from the checkout and ``gravbench`` from the
commit that it has installed: what a commit does not have yet is skipped there. Classes, because each has its own unit.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import yaml

SWEEP = Path(__file__).with_name("sentinels.yaml")

Result = dict[str, Any]
"""Of one case: status, reason and the tracked figures, each None where it does not exist."""


def names() -> dict[str, dict[str, Any]]:
    """Name every case of the sweep, with an entry of a sweep that has only that one."""
    found = {}
    for entry in yaml.safe_load(SWEEP.read_text("utf-8"))["variants"]:
        parts = [entry[key] if isinstance(entry[key], list) else [entry[key]] for key in ("variant", "toolkit", "n")]
        for variant, toolkit, n in itertools.product(*parts):
            found[f"{variant} {toolkit} n={n}"] = {"variant": variant, "toolkit": toolkit, "n": n}
    return found


def measured() -> dict[str, Result]:
    """Measure every case, each device in its own process, and return what is tracked by the names of the cases."""
    # asv discovers the suite with whatever commit is installed: only here does it have to have all of this.
    from dataclasses import replace

    from gravbench.config.load import load
    from gravbench.errors import InputError
    from gravbench.measuring import runner
    from gravbench.measuring.plan import plan
    from gravbench.toolkits.devices import select

    whole = yaml.safe_load(SWEEP.read_text("utf-8"))
    results: dict[str, Result] = {}
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        single = Path(folder) / SWEEP.name
        for name, entry in names().items():
            single.write_text(yaml.safe_dump(whole | {"variants": [entry]}), "utf-8")
            try:
                sweep = load(str(single))
            except InputError as error:
                results[name] = {"status": "skipped", "reason": str(error)}
                continue
            found[sweep.cases[0].key] = name, sweep.cases[0]
        if not found:
            return results
        sweep = replace(sweep, cases=[case for _, case in found.values()])
        todo = plan(sweep, *select([]), anchors=False)
        for record in runner.run(sweep, todo, Path(folder), runner.SILENT):
            seconds = record.median_seconds
            results[found[record.key][0]] = {
                "status": record.status,
                "reason": record.reason,
                # Of the interactions that are computed: of a tree too, as in every table.
                "picoseconds": None if seconds is None or record.uncounted else seconds / record.evaluated * 1e12,
                "error": record.error_max,
                "registers": record.registers,
                "local_bytes": record.local_bytes,
            }
    return results


class Sentinels:
    """What the four benchmarks share; nothing in it looks like a benchmark to asv."""

    params: ClassVar = list(names())
    param_names = ("case",)
    timeout = 900.0
    version = "1"
    tracked = "picoseconds"
    may_be_invalid = False

    def setup_cache(self) -> dict[str, Result]:
        """Measure: once for all of them."""
        return measured()

    def setup(self, results: dict[str, Result], case: str) -> None:
        """Skip the case where it cannot run, and let it fail where it did."""
        result = results[case]
        status = result["status"]
        if status == "skipped" or (status == "ok" and result[self.tracked] is None):
            raise NotImplementedError(result["reason"])
        usable = status == "ok" or (self.may_be_invalid and status == "invalid" and result[self.tracked] is not None)
        if not usable:
            raise RuntimeError(f"{case}: {status}: {result['reason']}")


def _tracked(benchmark: Sentinels, results: dict[str, Result], case: str) -> float:
    """Return what the benchmark tracks of a case."""
    return float(results[case][benchmark.tracked])


class Speed(Sentinels):
    """How long one interaction takes: the median time of an evaluation over its directed pairs."""

    unit = "ps"
    track_picoseconds_per_interaction = _tracked


class Accuracy(Sentinels):
    """The largest relative error of an acceleration, also where it is too large to be ranked."""

    unit = "relative error"
    tracked = "error"
    may_be_invalid = True
    track_force_error = _tracked


class Registers(Sentinels):
    """Registers per thread."""

    unit = "registers"
    tracked = "registers"
    track_registers = _tracked


class Spills(Sentinels):
    """Local memory per thread: bytes that do not fit into registers."""

    unit = "bytes"
    tracked = "local_bytes"
    track_spilled_bytes = _tracked
