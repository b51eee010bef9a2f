"""What the shell completes: names of variants, configurations, runs, sources and devices.

Each press of the tab key starts gravbench anew, so that nothing here imports what takes long.
"""

from __future__ import annotations

from pathlib import Path

MOST_RUNS = 200


def variants(incomplete: str) -> list[str]:
    """Name the variants, by the files that declare one: none is imported."""
    from gravbench.cli.folders import remembered
    from gravbench.model.declaring import DECLARATION
    from gravbench.model.stem_code import BUILT_IN

    names = {
        path.stem
        for root in (BUILT_IN, *remembered())
        for path in root.rglob("*.py")
        if path.stem.startswith(incomplete) and DECLARATION.search(path.read_text("utf-8", errors="replace"))
    }
    return sorted(names)


def configs(incomplete: str) -> list[str]:
    """Name the packaged configurations and the YAML files here."""
    from gravbench.config.load import packaged

    files = [str(path) for path in Path().glob(f"{incomplete}*") if path.suffix in (".yaml", ".yml")]
    return sorted(name for name in {*packaged(), *files} if name.startswith(incomplete))


def runs(incomplete: str) -> list[str]:
    """Name the runs below reports/, the newest first, folders here that hold records, and the runs of the clone."""
    from gravbench.model.run_names import names
    from gravbench.model.runs import RECORDS

    runs_here, of_clone = names(newest_first=True)
    runs_here += [str(path.parent) for path in Path().glob(f"{incomplete}*/{RECORDS}") if path.parent != Path()]
    return [name for name in [*runs_here, *of_clone] if name.startswith(incomplete)][:MOST_RUNS]


def sources(incomplete: str) -> list[str]:
    """Name the sources whose numbers a report can set beside its own."""
    from gravbench.config.published import packaged

    return sorted(name for name in packaged() if name.startswith(incomplete))


def toolkits(incomplete: str) -> list[str]:
    """Name the toolkits."""
    from gravbench.model.toolkits import catalogue

    return [name for name in catalogue() if name.startswith(incomplete)]


def devices(incomplete: str) -> list[str]:
    """Name what ``--device`` of the commands that run kernels takes on most machines."""
    return [name for name in ("cpu", "cuda:0", "cuda:1") if name.startswith(incomplete)]
