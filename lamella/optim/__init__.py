"""Optimisers and learning-rate schedules with PyTorch's names, options and update rules."""

from lamella.optim import lr_scheduler
from lamella.optim.adam import Adam, AdamW
from lamella.optim.ema import EMA
from lamella.optim.optimizer import Optimizer
from lamella.optim.sgd import SGD

__all__ = ["EMA", "SGD", "Adam", "AdamW", "Optimizer", "lr_scheduler"]
