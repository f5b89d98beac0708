import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _t(a):
    return a.transpose(-1, -2)


def build_spd_power(power: float):
    """Real power of symmetric positive definite matrices.

    Returns a function of ``a`` with shape ``(..., n, n)``; the symmetric part of ``a`` is what is raised.
    Equal eigenvalues are fine.
    """

    class SpdPower(Function):
        @staticmethod
        def forward(ctx, a):
            w, u = torch.linalg.eigh(0.5 * (a + _t(a)))
            ctx.save_for_backward(w, u)
            return (u * w.pow(power).unsqueeze(-2)) @ _t(u)

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            w, u = ctx.saved_tensors
            wi, wj = w.unsqueeze(-1), w.unsqueeze(-2)
            # divided difference of w**power, written in the log of the ratio so that close pairs are safe
            near = (wi < 2 * wj) & (wj < 2 * wi)
            d = torch.where(near, torch.log1p((wi - wj) / wj), torch.log(wi) - torch.log(wj))
            same = d == 0
            safe = torch.where(same, torch.ones_like(d), d)
            quotient = torch.where(same, torch.full_like(d, power), torch.expm1(power * safe) / torch.expm1(safe))
            loewner = wj.pow(power - 1.0) * quotient
            g = u @ (loewner * (_t(u) @ grad @ u)) @ _t(u)
            return 0.5 * (g + _t(g))

    return SpdPower.apply


class TriangularSolveFunction(Function):
    """Solve ``T x = b`` (or ``T^T x = b``) with a triangular matrix.

    :param a: ``(..., n, n)``; only the triangle named by ``upper`` is read
    :param b: ``(..., n, k)`` with the same leading dimensions
    :param upper: which triangle of ``a`` is ``T``
    :param transpose: solve with the transpose of ``T``
    :param unitriangular: take the diagonal of ``T`` as ones and do not read it
    """

    @staticmethod
    def forward(ctx, a, b, upper=False, transpose=False, unitriangular=False):
        x = TriangularSolveFunction._solve(a, b, upper, transpose, unitriangular)
        ctx.save_for_backward(a, x)
        ctx.flags = (upper, transpose, unitriangular)
        return x

    @staticmethod
    def _solve(a, b, upper, transpose, unitriangular):
        if transpose:
            a, upper = _t(a), not upper
        return torch.linalg.solve_triangular(a, b, upper=upper, unitriangular=unitriangular)

    @staticmethod
    def backward(ctx, grad):
        a, x = ctx.saved_tensors
        upper, transpose, unitriangular = ctx.flags
        grad_b = TriangularSolveFunction._solve(a, grad, upper, not transpose, unitriangular)
        grad_a = None
        if ctx.needs_input_grad[0]:
            grad_a = -grad_b @ _t(x)
            skip = 1 if unitriangular else 0
            grad_a = grad_a.triu(skip) if upper else grad_a.tril(-skip)
        return grad_a, grad_b, None, None, None


# (k + 1) / (k + 2)! for k = 0 .. 11
_SLOPE_SERIES = (
    1 / 2, 1 / 3, 1 / 8, 1 / 30, 1 / 144, 1 / 840, 1 / 5760, 1 / 45360,
    1 / 403200, 1 / 3991680, 1 / 43545600, 1 / 518918400,
)  # fmt: skip


class BoxCoxFunction(Function):
    """Box-Cox transform ``(x**lam - 1) / lam``, which is ``log(x)`` at ``lam = 0``, for ``x > 0``.

    ``lam`` broadcasts against ``x``; both are differentiated, also at and near ``lam = 0``.
    """

    @staticmethod
    def forward(ctx, x: "Float[Tensor, '...']", lam: "Float[Tensor, '...']"):
        ctx.save_for_backward(x, lam)
        log_x = torch.log(x)
        t = lam * log_x
        safe = torch.where(t == 0, torch.ones_like(t), t)
        return log_x * torch.where(t == 0, torch.ones_like(t), torch.expm1(safe) / safe)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, lam = ctx.saved_tensors
        grad_x = grad_lam = None
        if ctx.needs_input_grad[0]:
            grad_x = (grad * x.pow(lam - 1)).sum_to_size(x.shape)
        if ctx.needs_input_grad[1]:
            log_x = torch.log(x)
            t = lam * log_x
            small = t.abs() < 0.3
            series = torch.zeros_like(t)
            for c in reversed(_SLOPE_SERIES):
                series = series * t + c
            safe = torch.where(small, torch.ones_like(t), t)
            closed = (safe * torch.exp(safe) - torch.expm1(safe)) / safe.square()
            grad_lam = (grad * log_x.square() * torch.where(small, series, closed)).sum_to_size(lam.shape)
        return grad_x, grad_lam


class BoxCox(torch.nn.Module):
    def __init__(self, features: int, init: float = 1.0):
        super().__init__()
        self.lam = torch.nn.Parameter(torch.full((features,), init))

    def forward(self, x):
        return BoxCoxFunction.apply(x, self.lam)
