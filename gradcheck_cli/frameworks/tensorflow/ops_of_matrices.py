"""TensorFlow operations that tf2jax lacks, as JAX has them: matrices, their diagonals and their factors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

Function = Callable[..., Any]
_LEFT = "LEFT_LEFT"  # how diagonals of unequal lengths lay in a band before they had a choice


def _adjoint(x: Any) -> Any:
    return jnp.conj(jnp.swapaxes(x, -1, -2))


# -- diagonals ----------------------------------------------------------------------


class Band:
    """The diagonals from `low` to `high` of a matrix, and where a band array keeps them."""

    def __init__(self, numbers: Any, align: str) -> None:
        given = np.atleast_1d(np.asarray(numbers)).tolist()
        self.low, self.high = int(given[0]), int(given[-1])
        self.single = self.low == self.high
        above, below = align.split("_")
        self.left_above, self.left_below = above == "LEFT", below == "LEFT"

    def length(self, rows: int, columns: int) -> int:
        """How long the longest of its diagonals is."""
        return min(rows + min(self.high, 0), columns - max(self.low, 0))

    def places(self, rows: int, columns: int) -> tuple[Any, Any, Any, Any]:
        """Rows and columns of its elements in the matrix, and in the band array."""
        found = []
        longest = self.length(rows, columns)
        for number in range(self.high, self.low - 1, -1):
            own = min(rows + min(number, 0), columns - max(number, 0))
            left = (number >= 0 and self.left_above) or (number <= 0 and self.left_below)
            skipped = 0 if left else longest - own
            found += [(max(-number, 0) + k, max(number, 0) + k, self.high - number, skipped + k) for k in range(own)]  # fmt: skip
        first, second, third, fourth = np.array(found, int).reshape(-1, 4).T
        return first, second, third, fourth

    def taken(self, x: Any, padding: Any) -> Any:
        """The band array of a matrix."""
        rows, columns = x.shape[-2:]
        row, column, diagonal, place = self.places(rows, columns)
        if self.single:
            return x[..., row, column]
        shape = (*x.shape[:-2], self.high - self.low + 1, self.length(rows, columns))
        return jnp.full(shape, padding, x.dtype).at[..., diagonal, place].set(x[..., row, column])

    def put(self, x: Any, diagonals: Any) -> Any:
        """The matrix with these diagonals in the place of its own."""
        row, column, diagonal, place = self.places(*x.shape[-2:])
        numbers = diagonals[..., place] if self.single else diagonals[..., diagonal, place]
        return jnp.asarray(x).at[..., row, column].set(numbers)

    def shape(self, diagonals: Any, rows: Any, columns: Any) -> tuple[int, int]:
        """That of the matrix with these diagonals, where −1 stands for what is not said."""
        longest = diagonals.shape[-1]
        high, wide = int(np.asarray(rows)), int(np.asarray(columns))
        least_high, least_wide = longest - min(self.high, 0), longest + max(self.low, 0)
        if high == -1 and wide == -1:
            return max(least_high, least_wide), max(least_high, least_wide)
        return (least_high if high == -1 else high), (least_wide if wide == -1 else wide)


def _aligned(proto: Any) -> str:
    return proto.attr["align"].s.decode() or _LEFT


def _diagonal(proto: Any) -> Function:
    align = _aligned(proto)

    def matrix(diagonals: Any, k: Any = 0, rows: Any = -1, columns: Any = -1, padding: Any = 0) -> Any:  # fmt: skip
        band = Band(k, align)
        before = diagonals.shape[: -1 if band.single else -2]
        if band.single and np.size(k) > 1:  # (k, k): one diagonal in an array without its axis
            before = diagonals.shape[:-1]
        full = jnp.full((*before, *band.shape(diagonals, rows, columns)), padding, diagonals.dtype)
        return band.put(full, diagonals)

    return matrix


def _diagonal_part(proto: Any) -> Function:
    align = _aligned(proto)
    return lambda x, k=0, padding=0: Band(k, align).taken(x, padding)


def _with_diagonal(proto: Any) -> Function:
    align = _aligned(proto)
    return lambda x, diagonals, k=0: Band(k, align).put(x, diagonals)


def _tensor_diagonal(x: Any) -> Any:
    return jnp.diag(x.ravel()).reshape(*x.shape, *x.shape)


def _tensor_diagonal_part(x: Any) -> Any:
    shape = x.shape[: x.ndim // 2]
    return jnp.diagonal(x.reshape(int(np.prod(shape)), -1)).reshape(shape)


# -- factors and solutions ----------------------------------------------------------


def _lu(proto: Any) -> Function:
    dtype = np.int64 if proto.attr["output_idx_type"].type == 9 else np.int32

    def factors(x: Any) -> tuple[Any, Any]:
        lu, _, permutation = jax.lax.linalg.lu(x)
        return lu, permutation.astype(dtype)

    return factors


def _log_determinant(x: Any) -> tuple[Any, Any]:
    sign, size = jnp.linalg.slogdet(x)
    return sign, size


def _cholesky_grad(factor: Any, dy: Any) -> Any:
    matrix = factor @ _adjoint(factor)
    _, pull = jax.vjp(jnp.linalg.cholesky, jax.lax.stop_gradient(matrix))
    return pull(jnp.tril(dy))[0]


def _tridiagonal_solution(proto: Any) -> Function:
    del proto

    def solved(diagonals: Any, rhs: Any) -> Any:
        above, main, below = (diagonals[..., k, :] for k in range(3))
        return jax.lax.linalg.tridiagonal_solve(below.at[..., 0].set(0), main, above.at[..., -1].set(0), rhs)  # fmt: skip

    return solved


def _tridiagonal_product(above: Any, main: Any, below: Any, rhs: Any) -> Any:
    def column(x: Any) -> Any:
        return jnp.swapaxes(x, -1, -2)

    none = jnp.zeros_like(rhs[..., :1, :])
    next_row = jnp.concatenate([rhs[..., 1:, :], none], -2)
    last_row = jnp.concatenate([none, rhs[..., :-1, :]], -2)
    return column(above) * next_row + column(main) * rhs + column(below) * last_row


def _least_squares(matrix: Any, rhs: Any, ridge: Any) -> Any:
    """The solution for a matrix of full rank: of least error, or of least norm."""
    rows, columns = matrix.shape[-2:]
    size = min(rows, columns)
    weights = jnp.asarray(ridge, matrix.dtype) * jnp.eye(size, dtype=matrix.dtype)
    adjoint = _adjoint(matrix)
    if rows >= columns:
        return jnp.linalg.solve(adjoint @ matrix + weights, adjoint @ rhs)
    return adjoint @ jnp.linalg.solve(matrix @ adjoint + weights, rhs)


def _product(proto: Any) -> Function:
    first, second = proto.attr["adj_x"].b, proto.attr["adj_y"].b
    return lambda x, y: jnp.matmul(_adjoint(x) if first else x, _adjoint(y) if second else y)


FUNCTIONS: dict[str, Function] = {
    "CholeskyGrad": _cholesky_grad,
    "Diag": _tensor_diagonal,
    "DiagPart": _tensor_diagonal_part,
    "LogMatrixDeterminant": _log_determinant,
    "MatrixSolveLs": _least_squares,
    "TridiagonalMatMul": _tridiagonal_product,
}

PARSED: dict[str, Callable[[Any], Function]] = {
    "BatchMatMul": _product,
    "BatchMatMulV3": _product,
    "Lu": _lu,
    "MatrixDiag": _diagonal,
    "MatrixDiagPart": _diagonal_part,
    "MatrixDiagPartV2": _diagonal_part,
    "MatrixDiagPartV3": _diagonal_part,
    "MatrixDiagV2": _diagonal,
    "MatrixSetDiag": _with_diagonal,
    "MatrixSetDiagV2": _with_diagonal,
    "TridiagonalSolve": _tridiagonal_solution,
}

# tf2jax has these for one diagonal in its one place.
CORRECTED: dict[str, Callable[[Any], Function]] = {
    "MatrixDiagV3": _diagonal,
    "MatrixSetDiagV3": _with_diagonal,
}
