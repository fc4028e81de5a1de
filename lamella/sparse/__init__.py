"""Sparse matrices: by coordinates (COO), by compressed rows (CSR), by rows of blocks (BSR).

A sparse matrix is its pattern (where its entries are) and ``data`` (their values). Derivatives are
by the data and by dense operands; ``jit``, ``vmap`` and optimisers see the data, and keep the
pattern as it is: another pattern compiles another program, unless the matrix is built inside from
arrays that are arguments. Entries that are given twice count as their sum.
"""

from lamella.sparse.blocks import BSR
from lamella.sparse.coordinates import COO
from lamella.sparse.rows import CSR, from_dense, sampled_matmul

__all__ = ["BSR", "COO", "CSR", "from_dense", "sampled_matmul"]
