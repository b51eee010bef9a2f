"""What a Dask worker of the tests imports first, so that its sessions are forked (see ``workers``), and soon end."""

from gravbench.measuring import dask_worker, processes
from workers import Forking

processes.CONTEXT = Forking("preloaded")
dask_worker.IDLE_SECONDS = 3.0
