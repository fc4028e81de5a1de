"""Optimisers and learning-rate schedules with PyTorch's names, options and update rules."""

from lamella.optim import lr_scheduler
from lamella.optim.adafactor import Adafactor
from lamella.optim.adam import Adam, AdamW
from lamella.optim.adaptive import Adadelta, Adagrad, RMSprop
from lamella.optim.ema import EMA
from lamella.optim.moments import Adamax, Lion, NAdam, RAdam
from lamella.optim.optimizer import Optimizer
from lamella.optim.sgd import SGD

__all__ = [
    "EMA", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "lr_scheduler",
]  # fmt: skip
