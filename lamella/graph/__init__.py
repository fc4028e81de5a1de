"""Functions from graph to graph over nodes, without tensors; primitives that hold graphs."""
from lamella.graph import branches as branches
from lamella.graph import loops as loops
