"""Differentiable building blocks for the inverse-problem notebooks."""
import math
from typing import NamedTuple

import torch
from torch.autograd import Function


class CayleyMap(Function):
    """Square matrix W -> rotation (I - A)^{-1} (I + A) with A = W - W^T."""

    @staticmethod
    def forward(ctx, W):
        A = W - W.mT
        eye = torch.eye(W.shape[-1], dtype=W.dtype, device=W.device)
        Q = torch.linalg.solve(eye - A, eye + A)
        ctx.save_for_backward(A, Q)
        return Q

    @staticmethod
    def backward(ctx, G):
        A, Q = ctx.saved_tensors
        eye = torch.eye(A.shape[-1], dtype=A.dtype, device=A.device)
        GA = torch.linalg.solve((eye - A).mT, G @ (Q + eye).mT)
        return GA - GA.mT


def orthogonal_rnn_step(h, x, W, U):
    return torch.tanh(h @ CayleyMap.apply(W).mT + x @ U.mT)


class SpectralConv1dFn(Function):
    """Fourier layer of an FNO in one space dimension.

    u:      (batch, c_in, n) real field on a periodic grid
    weight: (c_in, c_out, modes, 2) real and imaginary part of the multiplier,
            modes <= n // 2 + 1
    returns (batch, c_out, n)
    """

    @staticmethod
    def forward(ctx, u, weight):
        n, modes = u.shape[-1], weight.shape[2]
        w = torch.view_as_complex(weight.contiguous())
        uf = torch.fft.rfft(u)[..., :modes]
        ctx.save_for_backward(uf, w)
        ctx.n = n
        return torch.fft.irfft(torch.einsum("bim,iom->bom", uf, w), n=n)

    @staticmethod
    def backward(ctx, g):
        uf, w = ctx.saved_tensors
        n, modes = ctx.n, w.shape[-1]
        mult = torch.full((modes,), 2.0 / n, dtype=g.dtype, device=g.device)
        mult[0] = 1.0 / n
        if n % 2 == 0 and modes == n // 2 + 1:
            mult[-1] = 1.0 / n
        gf = torch.fft.rfft(g)[..., :modes] * mult
        gw = torch.einsum("bim,bom->iom", uf.conj(), gf)
        guf = torch.einsum("bom,iom->bim", gf, w)
        gu = torch.fft.ifft(guf, n=n).real * n
        return gu, torch.view_as_real(gw)


class FourierLayer(torch.nn.Module):
    def __init__(self, c_in, c_out, modes):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(c_in, c_out, modes, 2) / (c_in * c_out))
        self.skip = torch.nn.Conv1d(c_in, c_out, 1)

    def forward(self, u):
        return torch.nn.functional.gelu(SpectralConv1dFn.apply(u, self.weight) + self.skip(u))


class GaussParams(NamedTuple):
    loc: torch.Tensor          # (d,)
    scale_tril: torch.Tensor   # (d, d)


class _MVNLogProb(Function):

    @staticmethod
    def forward(x, loc, scale_tril):
        L = scale_tril.tril()
        z = torch.linalg.solve_triangular(L, (x - loc).mT, upper=False)     # (d, n)
        logdet = L.diagonal().abs().log().sum()
        d = x.shape[1]
        return -0.5 * (z ** 2).sum(0) - logdet - 0.5 * d * math.log(2 * math.pi)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        x, loc, scale_tril = ctx.saved_tensors
        L = scale_tril.tril()
        z = torch.linalg.solve_triangular(L, (x - loc).mT, upper=False)
        back = torch.linalg.solve_triangular(L.mT, -z * g, upper=True)      # (d, n)
        gL = -(back @ z.mT).tril() - torch.diag(g.sum() / L.diagonal())
        return back.mT, -back.sum(1), gL


def mvn_log_prob(x, params: GaussParams):
    """Log density of the rows of x (n, d); the upper triangle of scale_tril is not read."""
    return _MVNLogProb.apply(x, params.loc, params.scale_tril)


class ThetaIntegrator(Function):
    r"""Linear time-varying ODE x' = A_k x by the theta scheme.

    (I - h theta A_k) x_{k+1} = (I + h (1 - theta) A_k) x_k

    x0: (n,), A: (steps, n, n); theta = 1/2 is Crank-Nicolson, 1 implicit Euler,
    0 explicit Euler. Returns x_1 .. x_steps, (steps, n).
    """

    @staticmethod
    def forward(ctx, x0, A, h, theta=0.5):
        eye = torch.eye(x0.shape[0], dtype=x0.dtype, device=x0.device)
        xs = [x0]
        for Ak in A:
            rhs = xs[-1] + h * (1 - theta) * (Ak @ xs[-1])
            xs.append(torch.linalg.solve(eye - h * theta * Ak, rhs))
        traj = torch.stack(xs)
        ctx.save_for_backward(traj, A)
        ctx.h, ctx.theta = h, theta
        return traj[1:].clone()

    @staticmethod
    def backward(ctx, g):
        traj, A = ctx.saved_tensors
        h, theta = ctx.h, ctx.theta
        eye = torch.eye(traj.shape[1], dtype=traj.dtype, device=traj.device)
        gA = torch.empty_like(A)
        lam = torch.zeros_like(traj[0])
        for k in reversed(range(A.shape[0])):
            p = torch.linalg.solve((eye - h * theta * A[k]).mT, lam + g[k])
            mid = theta * traj[k] + (1 - theta) * traj[k + 1]
            gA[k] = h * torch.outer(p, mid)
            lam = p + h * (1 - theta) * (A[k].mT @ p)
        return lam, gA, None, None


def fit_misfit(x0, A, observed, every, h=0.1, theta=0.5):
    """Least squares misfit on every `every`-th state."""
    traj = ThetaIntegrator.apply(x0, A, h, theta)
    return 0.5 * (traj[every - 1::every] - observed).pow(2).sum()


class VonMisesLogProb(Function):
    """angles (n, d) in radians, loc (d,), kappa (d,) > 0  ->  (n, d)"""

    @staticmethod
    def forward(ctx, angles, loc, kappa):
        diff = angles - loc
        ctx.save_for_backward(diff, kappa)
        # log I0(k) = log i0e(k) + k
        return kappa * (torch.cos(diff) - 1) - math.log(2 * math.pi) - torch.log(torch.special.i0e(kappa))

    @staticmethod
    def backward(ctx, g):
        diff, kappa = ctx.saved_tensors
        g_diff = -g * kappa * torch.sin(diff)
        ratio = torch.special.i1e(kappa) / torch.special.i0(kappa)
        g_kappa = (g * (torch.cos(diff) - ratio)).sum(0)
        return g_diff, -g_diff.sum(0), g_kappa


def dihedral_nll(phi_psi, loc, log_kappa):
    return -VonMisesLogProb.apply(phi_psi, loc, log_kappa.exp()).sum(-1).mean()
