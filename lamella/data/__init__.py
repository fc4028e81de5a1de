"""Data for training: the loader that batches and shuffles, splits, and the digits that ship with
Lamella.
"""

from lamella.data.digits import Digits, digits
from lamella.data.loader import DataLoader, Subset, TensorDataset, random_split

__all__ = ["DataLoader", "Digits", "Subset", "TensorDataset", "digits", "random_split"]
