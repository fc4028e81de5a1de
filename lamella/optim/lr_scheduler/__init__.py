"""Learning-rate schedules: call ``step()`` after each optimiser step (or epoch), outside
transformed functions.

Each computes the rate of step ``t`` in closed form from the groups' initial rates and sets
``param_groups[i]["lr"]``, which compiled steps read without a retrace.
"""

from lamella.optim.lr_scheduler.base import LRScheduler
from lamella.optim.lr_scheduler.combined import ChainedScheduler, SequentialLR
from lamella.optim.lr_scheduler.cycles import CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from lamella.optim.lr_scheduler.formulas import (
    ConstantLR,
    CosineAnnealingLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from lamella.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts",
    "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR",
    "MultiplicativeLR", "OneCycleLR", "PolynomialLR", "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip
