"""Transformations of graphs: from nodes to nodes, without tensors or values."""
