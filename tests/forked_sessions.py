"""What a Dask worker of the tests imports first, so that its sessions are forked: see ``workers``."""

from gravbench.measuring import processes
from workers import Forking

processes.CONTEXT = Forking("preloaded")
