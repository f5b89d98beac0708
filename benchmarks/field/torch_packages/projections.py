"""Projections and solvers that are differentiated implicitly."""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class SparsemaxFunction(Function):
    """Euclidean projection onto the probability simplex along one dimension.

    :param x: scores
    :param dim: dimension that sums to one
    """

    @staticmethod
    def forward(ctx, x, dim=-1):
        z, _ = x.sort(dim=dim, descending=True)
        shape = [1] * x.dim()
        shape[dim] = -1
        k = torch.arange(1, x.shape[dim] + 1, device=x.device, dtype=x.dtype).view(shape)
        cum = z.cumsum(dim) - 1
        size = (k * z > cum).sum(dim, keepdim=True)
        tau = cum.gather(dim, size - 1) / size.to(x.dtype)
        out = torch.clamp(x - tau, min=0)
        ctx.dim = dim
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, grad):
        (out,) = ctx.saved_tensors
        support = (out > 0).to(grad.dtype)
        total = (grad * support).sum(ctx.dim, keepdim=True)
        mean = total / support.sum(-1, keepdim=True)
        return support * (grad - mean), None


def _pool_adjacent(y):
    """Nonincreasing least squares fit of a vector; gives the block number of each entry."""
    sums, sizes = [], []
    for value in y.tolist():
        total, count = value, 1
        while sums and sums[-1] * count <= total * sizes[-1]:
            total += sums.pop()
            count += sizes.pop()
        sums.append(total)
        sizes.append(count)
    return torch.repeat_interleave(torch.arange(len(sizes)), torch.tensor(sizes)).to(y.device)


def _block_mean(x, blocks):
    n = int(blocks[-1]) + 1
    total = x.new_zeros(n).index_add_(0, blocks, x)
    count = x.new_zeros(n).index_add_(0, blocks, torch.ones_like(x))
    return (total / count)[blocks]


class SoftRankFunction(Function):
    """Soft ranks by projection onto the permutahedron.

    Args:
        values (Tensor): (rows, n).
        strength (float): weight of the quadratic regularisation. Small values give the hard ranks.

    Returns:
        Tensor: (rows, n), ranks from 1 (the smallest) to n.
    """

    @staticmethod
    def forward(ctx, values, strength=1.0):
        n = values.shape[-1]
        theta = values / strength
        theta_sorted, order = theta.sort(dim=-1, descending=True)
        rho = torch.arange(n, 0, -1, dtype=values.dtype, device=values.device)
        rows, blocks = [], []
        for row in theta_sorted - rho:
            block = _pool_adjacent(row)
            blocks.append(block)
            rows.append(_block_mean(row, block))
        primal = theta_sorted - torch.stack(rows)
        ctx.save_for_backward(order, torch.stack(blocks))
        ctx.strength = strength
        return torch.empty_like(primal).scatter_(-1, order, primal)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        order, blocks = ctx.saved_tensors
        g = grad.gather(-1, order)
        pooled = torch.stack([_block_mean(row, block) for row, block in zip(g, blocks)])
        g = (g - pooled) / ctx.strength
        return torch.empty_like(g).scatter_(-1, order, g), None


class LinearSolveFunction(Function):
    """Solves ``A x = b``.

    Parameters
    ----------
    A : Tensor, shape (..., n, n)
        Regular matrices.
    b : Tensor, shape (..., n, k)

    Returns
    -------
    Tensor, shape (..., n, k)
    """

    @staticmethod
    def forward(ctx, A, b):
        lu, pivots = torch.linalg.lu_factor(A)
        x = torch.linalg.lu_solve(lu, pivots, b)
        ctx.save_for_backward(lu, pivots, x)
        return x

    @staticmethod
    def backward(ctx, grad):
        lu, pivots, x = ctx.saved_tensors
        grad_b = torch.linalg.lu_solve(lu, pivots, grad)
        grad_A = -grad_b @ x.transpose(-1, -2)
        return grad_A, grad_b


def make_fixed_point(f, max_iter=500, tol=1e-12):
    class FixedPoint(Function):
        @staticmethod
        def forward(ctx, z0, *params):
            z = z0.detach()
            for _ in range(max_iter):
                z_next = f(z, *params)
                done = bool((z_next - z).norm() <= tol * (1 + z.norm()))
                z = z_next
                if done:
                    break
            ctx.save_for_backward(z, *params)
            return z

        @staticmethod
        @once_differentiable
        def backward(ctx, grad):
            z, *params = ctx.saved_tensors
            wanted = ctx.needs_input_grad[1:]
            with torch.enable_grad():
                z = z.detach().requires_grad_()
                params = [p.detach().requires_grad_(w) for p, w in zip(params, wanted)]
                out = f(z, *params)
            u = grad
            for _ in range(max_iter):
                (step,) = torch.autograd.grad(out, z, u, retain_graph=True)
                u_next = grad + step
                done = bool((u_next - u).norm() <= tol * (1 + u.norm()))
                u = u_next
                if done:
                    break
            live = [p for p, w in zip(params, wanted) if w]
            found = iter(torch.autograd.grad(out, live, u, allow_unused=True)) if live else iter(())
            return (None, *(next(found) if w else None for w in wanted))

    def solve(z0, *params):
        """Fixed point of ``z = f(z, *params)`` for a contraction ``f``, from the start ``z0``."""
        return FixedPoint.apply(z0, *params)

    return solve
