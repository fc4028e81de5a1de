"""Linear algebra: the functions of the array-API standard, of NumPy and of PyTorch.

Matrices lie in the last two axes, other axes are batches. Everything works under ``jit``, ``vmap``
and ``grad`` to any order. Factorisations are computed by LAPACK through NumPy: their results are
the same for any number of Lamella's threads, but may differ between numbers of threads of NumPy's
BLAS (set ``OPENBLAS_NUM_THREADS``, or ``MKL_NUM_THREADS``, to fix them).
"""

from lamella.tensor.decomposition import (
    cholesky,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lu,
    lu_factor,
    qr,
    svd,
    svdvals,
)
from lamella.tensor.linalg import (
    cross,
    diagonal,
    dot,
    einsum,
    inner,
    kron,
    matmul,
    matrix_transpose,
    outer,
    tensordot,
    trace,
    vecdot,
)
from lamella.tensor.norms import cond, matrix_norm, matrix_rank, norm, vector_norm
from lamella.tensor.solving import (
    cholesky_inverse,
    cholesky_solve,
    det,
    inv,
    lstsq,
    lu_solve,
    matrix_exp,
    matrix_power,
    multi_dot,
    pinv,
    slogdet,
    solve,
    solve_triangular,
    tensorinv,
    tensorsolve,
    vander,
)

__all__ = [
    "cholesky", "cholesky_inverse", "cholesky_solve", "cond", "cross", "det", "diagonal", "dot",
    "eig", "eigh", "eigvals", "eigvalsh", "einsum", "householder_product", "inner", "inv", "kron",
    "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power",
    "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pinv", "qr", "slogdet",
    "solve", "solve_triangular", "svd", "svdvals", "tensordot", "tensorinv", "tensorsolve", "trace",
    "vander", "vecdot", "vector_norm",
]  # fmt: skip
