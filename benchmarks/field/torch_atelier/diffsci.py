r"""Differentiable kernels for inverse problems: implicit solvers, adjoints, evidence.

Everything works in whatever floating type comes in, but the solvers are meant
for ``float64``.
"""
import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Union

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LOG_2PI = math.log(2.0 * math.pi)
TWO_PI = 2.0 * math.pi


# ---------------------------------------------------------------------------
# Tridiagonal systems
# ---------------------------------------------------------------------------
def thomas(lower: Tensor, diag: Tensor, upper: Tensor, rhs: Tensor) -> Tensor:
    """Thomas algorithm without pivoting; ``rhs`` is ``(batch, n)``."""
    n = diag.numel()
    cp, dp = [], []
    for i in range(n):
        if i == 0:
            piv, num = diag[0], rhs[:, 0]
        else:
            piv = diag[i] - lower[i - 1] * cp[-1]
            num = rhs[:, i] - lower[i - 1] * dp[-1]
        cp.append(upper[i] / piv if i < n - 1 else None)
        dp.append(num / piv)
    x = [dp[-1]]
    for i in range(n - 2, -1, -1):
        x.append(dp[i] - cp[i] * x[-1])
    return torch.stack(x[::-1], dim=1)


class TridiagonalSolve(Function):
    """Solve ``A x = rhs`` for tridiagonal, diagonally dominant ``A``.

    Parameters
    ----------
    lower, upper : (n - 1,) tensors
        ``lower[i] = A[i + 1, i]`` and ``upper[i] = A[i, i + 1]``.
    diag : (n,) tensor
    rhs : (batch, n) tensor
        Right-hand sides; they share the matrix.

    Notes
    -----
    One further tridiagonal solve gives the adjoint state :math:`\\lambda`; then
    :math:`\\bar b = \\lambda` and :math:`\\bar A_{ij} = -\\lambda_i x_j`.
    """

    @staticmethod
    def forward(ctx, lower: Tensor, diag: Tensor, upper: Tensor, rhs: Tensor) -> Tensor:
        x = thomas(lower, diag, upper, rhs)
        ctx.save_for_backward(lower, diag, upper, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, g: Tensor):
        lower, diag, upper, x = ctx.saved_tensors
        lam = thomas(lower, diag, upper, g)
        d_lower = d_diag = d_upper = None
        if ctx.needs_input_grad[0]:
            d_lower = -(lam[:, 1:] * x[:, :-1]).sum(0)
        if ctx.needs_input_grad[1]:
            d_diag = -(lam * x).sum(0)
        if ctx.needs_input_grad[2]:
            d_upper = -(lam[:, :-1] * x[:, 1:]).sum(0)
        return d_lower, d_diag, d_upper, lam


class ImplicitTransport(nn.Module):
    """Backward-Euler step of :math:`u_t + c u_x = (\\kappa u_x)_x`, first-order upwind."""

    def __init__(self, n: int, dx: float, dt: float, speed: float = 0.0):
        super().__init__()
        self.dx, self.dt = dx, dt
        self.log_kappa = nn.Parameter(torch.zeros(n - 1, dtype=torch.float64))
        self.speed = nn.Parameter(torch.tensor(speed, dtype=torch.float64))

    def forward(self, u: Tensor) -> Tensor:
        k = self.log_kappa.exp() * self.dt / self.dx**2
        right = self.speed.clamp(min=0) * self.dt / self.dx
        left = (-self.speed).clamp(min=0) * self.dt / self.dx
        zero = k.new_zeros(1)
        diag = 1 + torch.cat([k, zero]) + torch.cat([zero, k]) + right + left
        return TridiagonalSolve.apply(-k - right, diag, -k - left, u)


# ---------------------------------------------------------------------------
# Anharmonic chain
# ---------------------------------------------------------------------------
class ChainState(NamedTuple):
    x: Tensor
    v: Tensor


def make_chain_rollout(steps: int, dt: float, boundary: Literal["periodic", "fixed"] = "periodic"):
    """Velocity-Verlet rollout of a Fermi-Pasta-Ulam type chain with unit masses.

    A bond stretched by ``s`` carries the tension ``k1 * s + k2 * s**2 + ...``.
    The result is a function ``rollout(x0, v0, k1, k2, ...)`` with ``x0`` and
    ``v0`` of shape ``(batch, n)``.  Each ``k`` is a scalar or has one entry per
    bond: ``n`` bonds for the periodic chain, ``n + 1`` between walls.
    """
    if boundary not in ("periodic", "fixed"):
        raise ValueError(boundary)

    def stretch(x):
        if boundary == "periodic":
            return torch.roll(x, -1, dims=1) - x
        wall = x.new_zeros(x.shape[0], 1)
        return torch.diff(torch.cat([wall, x, wall], dim=1), dim=1)

    def stretch_t(s):
        if boundary == "periodic":
            return torch.roll(s, 1, dims=1) - s
        return s[:, :-1] - s[:, 1:]

    def force(x, ks):
        s = stretch(x)
        return -stretch_t(sum(k * s ** (p + 1) for p, k in enumerate(ks)))

    def force_vjp(x, ks, g):
        s, dT = stretch(x), -stretch(g)
        dk = [(dT * s ** (p + 1)).sum_to_size(k.shape) for p, k in enumerate(ks)]
        slope = sum((p + 1) * k * s**p for p, k in enumerate(ks))
        return stretch_t(dT * slope), dk

    class ChainRollout(Function):
        @staticmethod
        def forward(ctx, x, v, *ks):
            path = [x]
            for _ in range(steps):
                v = v + 0.5 * dt * force(x, ks)
                x = x + dt * v
                v = v + 0.5 * dt * force(x, ks)
                path.append(x)
            ctx.save_for_backward(torch.stack(path), *ks)
            return x.clone(), v.clone()

        @staticmethod
        @once_differentiable
        def backward(ctx, gx, gv):
            path, *ks = ctx.saved_tensors
            gk = [torch.zeros_like(k) for k in ks]
            for i in range(steps, 0, -1):
                fx, dk = force_vjp(path[i], ks, 0.5 * dt * gv)
                gx = gx + fx
                gk = [a + b for a, b in zip(gk, dk)]
                gv = gv + dt * gx
                fx, dk = force_vjp(path[i - 1], ks, 0.5 * dt * gv)
                gx = gx + fx
                gk = [a + b for a, b in zip(gk, dk)]
            return gx, gv, *gk

    def rollout(x0: Tensor, v0: Tensor, *ks: Tensor) -> ChainState:
        return ChainState(*ChainRollout.apply(x0, v0, *ks))

    return rollout


# ---------------------------------------------------------------------------
# Orbits
# ---------------------------------------------------------------------------
class KeplerSolve(Function):
    r"""Eccentric and true anomaly from mean anomaly and eccentricity.

    Solves :math:`E - e \sin E = M` for ``0 <= e < 1``; the arguments broadcast.
    Returns ``(E, nu)``, both on the branch of ``M``.
    """

    MAXITER = 60

    @staticmethod
    def forward(ctx, mean_anomaly, ecc):
        M, e = torch.broadcast_tensors(mean_anomaly, ecc)
        turns = torch.round(M / TWO_PI)
        m = M - TWO_PI * turns
        # started at +-pi the iteration is monotone
        E = torch.where(m < 0, -math.pi, math.pi).to(m.dtype)
        tol = 4 * torch.finfo(m.dtype).eps
        for _ in range(KeplerSolve.MAXITER):
            step = (E - e * torch.sin(E) - m) / (1 - e * torch.cos(E))
            E = E - step
            if step.abs().max() < tol:
                break
        nu = 2 * torch.atan2(
            torch.sqrt(1 + e) * torch.sin(E / 2), torch.sqrt(1 - e) * torch.cos(E / 2)
        )
        ctx.save_for_backward(E, e)
        ctx.shapes = mean_anomaly.shape, ecc.shape
        ctx.set_materialize_grads(False)
        return E + TWO_PI * turns, nu + TWO_PI * turns

    @staticmethod
    @once_differentiable
    def backward(ctx, gE, gnu):
        E, e = ctx.saved_tensors
        m_shape, e_shape = ctx.shapes
        if gE is None and gnu is None:
            return None, None
        rho = 1 - e * torch.cos(E)
        eta = torch.sqrt((1 - e) * (1 + e))
        total = torch.zeros_like(E) if gE is None else gE
        d_ecc = torch.zeros_like(E)
        if gnu is not None:
            total = total + gnu * eta / rho
            d_ecc = gnu * torch.sin(E) / (eta * rho)
        d_mean = total / rho
        d_ecc = d_ecc + d_mean * torch.sin(E)
        return d_mean.sum_to_size(m_shape), d_ecc.sum_to_size(e_shape)


class RadialVelocity(nn.Module):
    """Keplerian velocity curves of several planets around one star."""

    def __init__(self, periods: Sequence[float]):
        super().__init__()
        p = torch.as_tensor(periods, dtype=torch.float64)
        self.log_period = nn.Parameter(p.log()[:, None])
        self.phase = nn.Parameter(torch.zeros_like(p)[:, None])
        self.raw_ecc = nn.Parameter(torch.full_like(p, -1.0)[:, None])
        self.omega = nn.Parameter(torch.zeros_like(p)[:, None])
        self.amp = nn.Parameter(torch.ones_like(p)[:, None])

    def forward(self, t: Tensor) -> Tensor:
        e = torch.sigmoid(self.raw_ecc)
        _, nu = KeplerSolve.apply(TWO_PI * t / self.log_period.exp() + self.phase, e)
        curve = torch.cos(nu + self.omega) + e * torch.cos(self.omega)
        return (self.amp * curve).sum(0)


# ---------------------------------------------------------------------------
# Statistics
# ---------------------------------------------------------------------------
class RBFEvidence(Function):
    """Log marginal likelihood of a zero-mean GP with an ARD squared-exponential kernel.

    Parameters
    ----------
    X : (n, d) inputs
    Y : (n, m) targets, ``m`` independent outputs sharing the kernel
    log_length : (d,) or () log length scales
    log_amp, log_noise : () log standard deviations
    jitter : float added to the diagonal
    """

    @staticmethod
    def forward(ctx, X, Y, log_length, log_amp, log_noise, jitter: float = 1e-8):
        Z = X / log_length.exp()
        diff = Z[:, None, :] - Z[None, :, :]
        Kf = torch.exp(2 * log_amp - 0.5 * diff.square().sum(-1))
        eye = torch.eye(len(X), dtype=X.dtype, device=X.device)
        L = torch.linalg.cholesky(Kf + (torch.exp(2 * log_noise) + jitter) * eye)
        alpha = torch.cholesky_solve(Y, L)
        n, m = Y.shape
        fit = -0.5 * (Y * alpha).sum()
        logdet = m * L.diagonal().log().sum()
        ctx.save_for_backward(diff, Kf, L, alpha, log_length, log_noise)
        return fit - logdet - 0.5 * n * m * LOG_2PI

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        diff, Kf, L, alpha, log_length, log_noise = ctx.saved_tensors
        W = 0.5 * (alpha @ alpha.T - alpha.shape[1] * torch.cholesky_inverse(L))
        WK = W * Kf
        dX = dY = None
        if ctx.needs_input_grad[0]:
            dX = -2 * g * torch.einsum("ij,ijd->id", WK, diff) / log_length.exp()
        if ctx.needs_input_grad[1]:
            dY = -g * alpha
        d_len = torch.einsum("ij,ijd->d", WK, diff.square()).sum_to_size(log_length.shape)
        d_amp = 2 * WK.sum()
        d_noise = 2 * torch.exp(2 * log_noise) * W.trace()
        return dX, dY, g * d_len, g * d_amp, g * d_noise, None


class MixtureNLL(Function):
    """Negative log likelihood of weighted samples under a diagonal Gaussian mixture.

    ``x`` is ``(n, d)``, ``sample_weight`` ``(n,)``, ``logits`` ``(k,)`` are the
    unnormalised log mixing proportions, ``means`` and ``log_scales`` ``(k, d)``.
    The weighted sum over samples is divided by ``sample_weight.sum()`` when
    ``reduction="mean"`` and returned as it is for ``"sum"``.  The second result,
    the ``(n, k)`` responsibilities, is for monitoring and carries no gradient.
    """

    @staticmethod
    def forward(ctx, x, sample_weight, logits, means, log_scales, reduction="mean"):
        z = (x[:, None, :] - means) * torch.exp(-log_scales)
        comp = -0.5 * z.square().sum(-1) - log_scales.sum(-1) - 0.5 * x.shape[1] * LOG_2PI
        joint = comp + torch.log_softmax(logits, 0)
        logp = torch.logsumexp(joint, dim=1)
        resp = torch.exp(joint - logp[:, None])
        total = sample_weight.sum()
        value = -(sample_weight * logp).sum()
        if reduction == "mean":
            value = value / total
        ctx.save_for_backward(sample_weight, logits, log_scales, z, resp, logp, value, total)
        ctx.reduction = reduction
        ctx.mark_non_differentiable(resp)
        return value, resp

    @staticmethod
    @once_differentiable
    def backward(ctx, g, _):
        w, logits, log_scales, z, resp, logp, value, total = ctx.saved_tensors
        if ctx.reduction == "mean":
            g = g / total
            d_w = g * (-logp - value)
        else:
            d_w = -g * logp
        wr = w[:, None] * resp
        pull = wr[:, :, None] * z * torch.exp(-log_scales)
        d_x = g * pull.sum(1)
        d_means = -g * pull.sum(0)
        d_scales = g * (wr[:, :, None] * (1 - z.square())).sum(0)
        d_logits = g * (len(w) * torch.softmax(logits, 0) - wr.sum(0))
        return d_x, d_w, d_logits, d_means, d_scales, None


class GaussianMixture(nn.Module):
    def __init__(self, k: int, d: int):
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(k, dtype=torch.float64))
        self.means = nn.Parameter(torch.randn(k, d, dtype=torch.float64))
        self.log_scales = nn.Parameter(torch.zeros(k, d, dtype=torch.float64))

    def nll(self, x: Tensor, sample_weight: Union[Tensor, None] = None) -> Tensor:
        if sample_weight is None:
            sample_weight = x.new_ones(len(x))
        loss, _ = MixtureNLL.apply(x, sample_weight, self.logits, self.means, self.log_scales)
        return loss


def fit_gp(X: Tensor, Y: Tensor, steps: int = 50, lr: float = 0.05):
    """Type-II maximum likelihood; returns the three log hyperparameters."""
    hyper = [
        torch.zeros(X.shape[1], dtype=X.dtype, requires_grad=True),
        torch.zeros((), dtype=X.dtype, requires_grad=True),
        torch.full((), -1.0, dtype=X.dtype, requires_grad=True),
    ]
    opt = torch.optim.Adam(hyper, lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        (-RBFEvidence.apply(X, Y, *hyper)).backward()
        opt.step()
    return [h.detach() for h in hyper]
