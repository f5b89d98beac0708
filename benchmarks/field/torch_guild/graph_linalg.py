"""Sparse products, segment statistics, structured solves and rigid alignment."""
from typing import NamedTuple, Optional

import torch
from torch import Tensor
from torch.autograd import Function


class CooPattern(NamedTuple):
    rows: Tensor
    cols: Tensor
    num_rows: int


class CooMatMulFunction(Function):
    """Product of a COO matrix with a dense one.

    :param rows: row ids of the non-zeros, ``(nnz,)``
    :param cols: column ids of the non-zeros, ``(nnz,)``
    :param values: entries, ``(nnz,)``
    :param dense: right factor, ``(num_cols, features)``
    :param num_rows: number of rows of the sparse matrix
    """

    @staticmethod
    def forward(ctx, rows, cols, values, dense, num_rows):
        ctx.save_for_backward(rows, cols, values, dense)
        out = dense.new_zeros(num_rows, dense.shape[1])
        return out.index_add_(0, rows, values[:, None] * dense[cols])

    @staticmethod
    def backward(ctx, grad_out):
        rows, cols, values, dense = ctx.saved_tensors
        g = grad_out[rows]
        grad_values = grad_dense = None
        if ctx.needs_input_grad[2]:
            grad_values = (g * dense[cols]).sum(-1)
        if ctx.needs_input_grad[3]:
            index = cols[:, None].expand_as(g)
            grad_dense = torch.zeros_like(dense).scatter_(0, index, values[:, None] * g)
        return None, None, grad_values, grad_dense, None


def coo_matmul(pattern: CooPattern, values: Tensor, dense: Tensor) -> Tensor:
    return CooMatMulFunction.apply(pattern.rows, pattern.cols, values, dense, pattern.num_rows)


class SegmentStdFunction(Function):

    @staticmethod
    def forward(ctx, x, index, num_segments, eps=1e-5):
        count = torch.bincount(index, minlength=num_segments).clamp(min=1).to(x.dtype)[:, None]
        mean = x.new_zeros(num_segments, x.shape[1]).index_add_(0, index, x) / count
        centred = x - mean[index]
        var = x.new_zeros(num_segments, x.shape[1]).index_add_(0, index, centred * centred) / count
        ctx.save_for_backward(centred, index, count, var)
        ctx.eps = eps
        return torch.sqrt(var + eps)

    @staticmethod
    def backward(ctx, grad_out):
        centred, index, count, var = ctx.saved_tensors
        scale = grad_out / (count * (var + ctx.eps))
        return scale[index] * centred, None, None, None


class StdAggregation(torch.nn.Module):
    def __init__(self, eps: float = 1e-5):
        super().__init__()
        self.eps = eps

    def forward(self, x, index, num_segments):
        return SegmentStdFunction.apply(x, index, num_segments, self.eps)


class KroneckerSolveFunction(Function):
    """Solves ``(A kron B) vec(X) = vec(C)``, i.e. ``A X B^T = C``.

    Parameters
    ----------
    a : Tensor, shape (..., m, m)
    b : Tensor, shape (..., n, n)
    c : Tensor, shape (..., m, n)

    Returns
    -------
    Tensor, shape (..., m, n)
    """

    @staticmethod
    def forward(ctx, a, b, c):
        x = torch.linalg.solve(a, c)
        x = torch.linalg.solve(b, x.mT).mT
        ctx.save_for_backward(a, b, x)
        return x

    @staticmethod
    def backward(ctx, grad):
        a, b, x = ctx.saved_tensors
        w = torch.linalg.solve(a.mT, grad)
        w = torch.linalg.solve(b.mT, w.mT).mT
        grad_a = -(w @ b) @ x.mT
        grad_b = -w.mT @ (a @ x)
        return grad_a, grad_b, w


class RidgeSolveFunction(Function):
    """Least-squares solution ``argmin_x |A x - b|^2 + ridge |x|^2``.

    Differentiates through the normal equations with a single adjoint solve.

    Args:
        a: Design matrices, ``(..., m, n)`` with ``m >= n`` unless ``ridge > 0``.
        b: Targets, ``(..., m)``.
        ridge: Tikhonov weight.

    Returns:
        Coefficients of shape ``(..., n)``.
    """

    @staticmethod
    def forward(ctx, a: Tensor, b: Tensor, ridge: float = 0.0) -> Tensor:
        eye = torch.eye(a.shape[-1], dtype=a.dtype, device=a.device)
        chol = torch.linalg.cholesky(a.mT @ a + ridge * eye)
        rhs = a.mT @ b[..., None]
        x = torch.cholesky_solve(rhs, chol)
        ctx.save_for_backward(a, chol, x)
        return x[..., 0]

    @staticmethod
    def backward(ctx, grad):
        a, chol, x = ctx.saved_tensors
        adjoint = torch.cholesky_solve(grad[..., None], chol)
        grad_b = a @ adjoint
        grad_a = -grad_b @ x.mT
        return grad_a, grad_b[..., 0], None


class RidgeReadout(torch.nn.Module):
    """Fits a linear readout on support features in closed form and applies it."""

    def __init__(self, ridge: float = 1e-3):
        super().__init__()
        self.ridge = ridge

    def forward(self, support, targets, query):
        coef = RidgeSolveFunction.apply(support, targets, self.ridge)
        return (query @ coef[..., None])[..., 0]


def _best_rotation(p: Tensor, q: Tensor, w: Tensor) -> Tensor:
    """Proper rotation ``R`` that minimises ``sum_i w_i |R p_i - q_i|^2``."""
    cov = (w[..., None] * q).mT @ p
    u, _, vt = torch.linalg.svd(cov)
    d = torch.ones_like(u[..., 0])
    d[..., -1] = torch.sign(torch.linalg.det(u @ vt))
    return (u * d[..., None, :]) @ vt


class AlignedRMSDFunction(Function):
    """Root-mean-square deviation after optimal weighted superposition.

    Parameters
    ----------
    p, q : Tensor
        Coordinates of shape ``(..., n, 3)``.
    weights : Tensor, optional
        Positive weights ``(n,)``, for example atomic masses. Equal weights by
        default. They are constants of the operation.
    tiny : float
        Deviations below this value get a zero gradient.
    """

    @staticmethod
    def forward(ctx, p: Tensor, q: Tensor, weights: Optional[Tensor] = None, tiny: float = 1e-9):
        w = p.new_ones(p.shape[-2]) if weights is None else weights
        total = w.sum()
        pc = p - (w[:, None] * p).sum(-2, keepdim=True) / total
        qc = q - (w[:, None] * q).sum(-2, keepdim=True) / total
        rot = _best_rotation(pc, qc, w)
        diff = pc @ rot.mT - qc
        rmsd = torch.sqrt((w * (diff * diff).sum(-1)).sum(-1) / total)
        ctx.save_for_backward(diff, rot, rmsd, w)
        ctx.tiny = tiny
        return rmsd

    @staticmethod
    def backward(ctx, grad):
        diff, rot, rmsd, w = ctx.saved_tensors
        n = diff.shape[-2]
        ok = rmsd > ctx.tiny
        coef = torch.where(ok, grad / torch.where(ok, rmsd, torch.ones_like(rmsd)), torch.zeros_like(rmsd))
        g = coef[..., None, None] * w[:, None] * diff / n
        return g @ rot, -g, None, None


def aligned_rmsd(p: Tensor, q: Tensor, masses: Optional[Tensor] = None) -> Tensor:
    """RMSD of two conformations, optionally mass-weighted."""
    return AlignedRMSDFunction.apply(p, q, masses)
