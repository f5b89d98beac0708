"""Solvers, filters and order statistics."""
import torch


class ImplicitDiffusionFunction(torch.autograd.Function):
    """One backward-Euler step of ``u_t = (c u_x)_x`` with insulated ends.

    Parameters
    ----------
    u : Tensor, shape (batch, n)
        State at the start of the step.
    conductivity : Tensor, shape (n - 1,)
        Positive, on the faces between cells.
    dt : Tensor, scalar
        Length of the step.
    dx : float
        Width of a cell.

    Returns
    -------
    Tensor, shape (batch, n)
    """

    @staticmethod
    def forward(ctx, u, conductivity, dt, dx=1.0):
        n = u.shape[-1]
        k = dt * conductivity / dx ** 2
        diag = torch.ones(n, dtype=u.dtype, device=u.device)
        diag[:-1] += k
        diag[1:] += k
        mat = torch.diag(diag) - torch.diag(k, 1) - torch.diag(k, -1)
        chol = torch.linalg.cholesky(mat)
        out = torch.cholesky_solve(u.t(), chol).t()
        ctx.save_for_backward(chol, out, conductivity, dt)
        ctx.dx = dx
        return out

    @staticmethod
    def backward(ctx, grad):
        chol, out, conductivity, dt = ctx.saved_tensors
        adj = torch.cholesky_solve(grad.t(), chol).t()
        flux = -(adj.diff(dim=-1) * out.diff(dim=-1)).sum(0) / ctx.dx ** 2
        return adj, flux * dt, (flux * conductivity).sum(), None


class GeneralizedEigvalsh(torch.autograd.Function):
    """Ascending eigenvalues of ``A v = w B v``, `A` symmetric, `B` positive definite, batched."""

    @staticmethod
    def forward(ctx, a, b):
        a = 0.5 * (a + a.mT)
        b = 0.5 * (b + b.mT)
        chol = torch.linalg.cholesky(b)
        half = torch.linalg.solve_triangular(chol, a, upper=False)
        c = torch.linalg.solve_triangular(chol, half.mT, upper=False)
        w, y = torch.linalg.eigh(0.5 * (c + c.mT))
        v = torch.linalg.solve_triangular(chol.mT, y, upper=True)
        ctx.save_for_backward(w, v)
        return w

    @staticmethod
    def backward(ctx, g):
        w, v = ctx.saved_tensors
        ga = (v * g.unsqueeze(-2)) @ v.mT
        gb = -(v * (g * w).unsqueeze(-2)) @ v.mT
        return ga, gb


def _delay(x, k):
    """Shift the last axis later by ``k`` samples, zeros entering."""
    if k == 0:
        return x
    return torch.cat([torch.zeros_like(x[..., :k]), x[..., :-k]], -1)


def _advance(x, k):
    if k == 0:
        return x
    return torch.cat([x[..., k:], torch.zeros_like(x[..., :k])], -1)


def _all_pole(x, a):
    y = []
    zero = torch.zeros_like(x[..., 0])
    y1 = y2 = zero
    for i in range(x.shape[-1]):
        cur = (x[..., i] - a[1] * y1 - a[2] * y2) / a[0]
        y.append(cur)
        y2, y1 = y1, cur
    return torch.stack(y, -1)


class BiquadFunction(torch.autograd.Function):
    """Second-order section on the last axis.

    :param x: signal ``(..., time)``, at rest before its first sample
    :param b: numerator ``(3,)``
    :param a: denominator ``(3,)``, need not be normalised
    """

    @staticmethod
    def forward(ctx, x, b, a):
        y = _all_pole(sum(b[k] * _delay(x, k) for k in range(3)), a)
        ctx.save_for_backward(x, y, b, a)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y, b, a = ctx.saved_tensors
        adj = _all_pole(g.flip(-1), a).flip(-1)
        gx = sum(b[k] * _advance(adj, k) for k in range(3))
        gb = torch.stack([(adj * _delay(x, k)).sum() for k in range(3)])
        ga = torch.stack([-(adj * _delay(y, k)).sum() for k in range(3)])
        return gx, gb, ga


class DescendingSort(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, dim=-1):
        values, order = torch.sort(x, dim=dim, descending=True, stable=True)
        ctx.save_for_backward(order)
        ctx.dim = dim
        return values

    @staticmethod
    def backward(ctx, grad):
        (order,) = ctx.saved_tensors
        return torch.gather(grad, ctx.dim, order), None


def descending_sort(x, dim=-1):
    return DescendingSort.apply(x, dim)
