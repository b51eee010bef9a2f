"""What the process that sessions are forked from does once: import what they need, and make the judge of gravity."""

import gc

import numpy as np

import gravbench.measuring.stages  # noqa: F401
from direct import direct_accelerations
from gravbench.model.bodies import Bodies
from gravbench.model.statistics import CONFIDENCE, student

for dtype in ("float32", "float64"):
    direct_accelerations(Bodies(np.ones(2), np.eye(2, 3), np.zeros((2, 3)), 0.1), np.arange(2), dtype)
student(1.0, CONFIDENCE)
# A session searches all that is there for garbage, which takes 0.06 s and copies the memory that it shares.
gc.collect()
gc.freeze()
