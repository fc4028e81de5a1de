"""Linear algebra: the functions of the array-API standard, of NumPy and of PyTorch.

Matrices lie in the last two axes, other axes are batches. Everything works under ``jit``, ``vmap``
and ``grad`` to any order. Results are the same for any number of Lamella's threads. What LAPACK
computes, through NumPy, may differ between numbers of threads of NumPy's BLAS (set
``OPENBLAS_NUM_THREADS``, or ``MKL_NUM_THREADS``, to fix them): orthogonal factors, eigenvalues and
singular values, and all of small, complex or symbolic size.
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
from lamella.tensor.pytorch import block_diag
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
from lamella.tensor.structured import (
    cho_factor,
    cho_solve,
    circulant,
    companion,
    convolution_matrix,
    dft,
    expm,
    fiedler,
    hadamard,
    hankel,
    helmert,
    hilbert,
    invhilbert,
    invpascal,
    leslie,
    pascal,
    polar,
    toeplitz,
)

__all__ = [
    "block_diag", "cho_factor", "cho_solve", "cholesky", "cholesky_inverse", "cholesky_solve",
    "circulant", "companion", "cond", "convolution_matrix", "cross", "det", "dft", "diagonal",
    "dot", "eig", "eigh", "eigvals", "eigvalsh", "einsum", "expm", "fiedler", "hadamard", "hankel",
    "helmert", "hilbert", "householder_product", "inner", "inv", "invhilbert", "invpascal", "kron",
    "leslie", "lstsq", "lu", "lu_factor", "lu_solve", "matmul", "matrix_exp", "matrix_norm",
    "matrix_power", "matrix_rank", "matrix_transpose", "multi_dot", "norm", "outer", "pascal",
    "pinv", "polar", "qr", "slogdet", "solve", "solve_triangular", "svd", "svdvals", "tensordot",
    "tensorinv", "tensorsolve", "toeplitz", "trace", "vander", "vecdot", "vector_norm",
]  # fmt: skip
