"""Imported by every Python process that has this folder in PYTHONPATH: gravbench finds a toolkit from elsewhere."""

from pathlib import Path

import gravbench.toolkits

gravbench.toolkits.__path__.append(str(Path(__file__).parent / "toolkits"))
