"""The tensor: a mutable handle on the graph, and every function users call on it.

Processing order: ``pending`` (traces, handles waiting for their value), ``core`` (the handle
without its methods), ``operands`` (promotion and recording), the families of functions, ``tensor``
(the class that joins them). Everything here composes ``lamella.ops`` builders.
"""

from lamella.tensor.tensor import Tensor

__all__ = ["Tensor"]
