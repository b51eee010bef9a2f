"""Let a program that lies beside a clone import gravbench: Python takes the clone's folder for the package.

Python looks beside the program first, and there is a folder of that name, though the package is in ``harness/``. What
is installed is imported instead, as everywhere else; where nothing is, the package of this clone.
"""

import sys
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

PACKAGE, FOLDER = "gravbench", "harness"


def _installed() -> ModuleSpec | None:
    """Find the package where no clone lies."""
    # Whatever is no text, finders pass over.
    path = [folder for folder in sys.path if isinstance(folder, str) and not Path(folder, PACKAGE, FOLDER).exists()]
    found = (finder.find_spec(PACKAGE, path) for finder in sys.meta_path)
    # A folder without a module in it has no loader.
    return next((spec for spec in found if spec and spec.loader), None)


def _of_this_clone() -> ModuleSpec | None:
    clone = Path(__file__).resolve().parent
    folder = clone / FOLDER
    # The clone has the folders of ``gravbench.variants`` and ``gravbench.configs``.
    return spec_from_file_location(
        PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder), str(clone)]
    )


if __name__ == PACKAGE:
    spec = _installed() or _of_this_clone()
    assert spec
    assert spec.loader
    module = sys.modules[PACKAGE] = module_from_spec(spec)
    spec.loader.exec_module(module)
