"""Simulators and likelihoods that we differentiate through often enough to want a hand-written backward."""

import math

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class BicycleRollout(Function):
    """Kinematic bicycle, Euler steps. Speed stays in [0, v_max] (no reverse)."""

    @staticmethod
    def forward(ctx, state, controls, wheelbase, dt, v_max):
        # state (B, 4): x, y, yaw, v;  controls (B, T, 2): acceleration, steering;  wheelbase ()
        x, y, yaw, v = state.unbind(-1)
        out = []
        for a, steer in zip(controls[..., 0].unbind(1), controls[..., 1].unbind(1)):
            x = x + dt * v * torch.cos(yaw)
            y = y + dt * v * torch.sin(yaw)
            yaw = yaw + dt * v * torch.tan(steer) / wheelbase
            v = (v + dt * a).clamp(0.0, v_max)
            out.append(torch.stack([x, y, yaw, v], -1))
        traj = torch.stack(out, 1)
        ctx.save_for_backward(state, controls, wheelbase, traj)
        ctx.dt, ctx.v_max = dt, v_max
        return traj

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        state, controls, wheelbase, traj = ctx.saved_tensors
        dt = ctx.dt
        prev = torch.cat([state[:, None], traj[:, :-1]], 1)
        gc = torch.zeros_like(controls)
        gl = torch.zeros_like(wheelbase)
        lx, ly, lyaw, lv = torch.zeros_like(state).unbind(-1)
        for t in range(controls.shape[1] - 1, -1, -1):
            _, _, yaw, v = prev[:, t].unbind(-1)
            gx, gy, gyaw, gv = g[:, t].unbind(-1)
            lx, ly, lyaw, lv = lx + gx, ly + gy, lyaw + gyaw, lv + gv
            tan = torch.tan(controls[:, t, 1])
            sin, cos = torch.sin(yaw), torch.cos(yaw)
            lv = lv * (traj[:, t, 3] < ctx.v_max)
            gc[:, t, 0] = dt * lv
            gc[:, t, 1] = lyaw * dt * v * (1 + tan * tan) / wheelbase
            gl -= (lyaw * dt * v * tan).sum() / wheelbase**2
            lv = lv + dt * (lx * cos + ly * sin + lyaw * tan / wheelbase)
            lyaw = lyaw + dt * v * (ly * cos - lx * sin)
        return torch.stack([lx, ly, lyaw, lv], -1), gc, gl, None, None


def rollout(state, controls, wheelbase=2.7, dt=0.1, v_max=30.0):
    return BicycleRollout.apply(
        state, controls, torch.as_tensor(wheelbase, dtype=state.dtype), dt, v_max
    )


class NMixtureLogLik(Function):
    """Royle's N-mixture model, abundance summed out up to K. counts, seen: (S, V); rate: (S,); p: broadcasts to (S, V)."""

    @staticmethod
    def forward(ctx, rate, p, counts, seen, K):
        n = torch.arange(K + 1, dtype=rate.dtype, device=rate.device)
        y = counts.to(rate.dtype)[..., None]
        pp = p.expand(counts.shape)[..., None]
        log_prior = n * rate.log()[:, None] - rate[:, None] - torch.lgamma(n + 1)
        rest = (n - y).clamp(min=0)
        ll = (
            torch.lgamma(n + 1)
            - torch.lgamma(y + 1)
            - torch.lgamma(rest + 1)
            + y * pp.log()
            + rest * torch.log1p(-pp)
        )
        ll = ll.masked_fill(n < y, float("-inf"))
        ll = torch.where(seen[..., None], ll, torch.zeros_like(ll)).sum(1)
        joint = log_prior + ll
        out = torch.logsumexp(joint, -1)
        mean_n = (torch.exp(joint - out[:, None]) * n).sum(-1)
        ctx.save_for_backward(rate, p, counts, seen, mean_n)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        rate, p, counts, seen, mean_n = ctx.saved_tensors
        g_rate = g * (mean_n / rate - 1)
        y = counts.to(rate.dtype)
        g_p = g[:, None] * (y / p - (mean_n[:, None] - y) / (1 - p)) * seen
        return g_rate, g_p.sum_to_size(p.shape), None, None, None


def fit_abundance(counts, seen, covariate, steps=200, lr=0.05, K=60):
    beta = torch.zeros(2, dtype=covariate.dtype, requires_grad=True)
    logit = torch.zeros(counts.shape[1], dtype=covariate.dtype, requires_grad=True)
    opt = torch.optim.Adam([beta, logit], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        rate = torch.exp(beta[0] + beta[1] * covariate)
        loss = -NMixtureLogLik.apply(rate, torch.sigmoid(logit), counts, seen, K).sum()
        loss.backward()
        opt.step()
    return beta.detach(), torch.sigmoid(logit).detach()


def _ncdf(x: Tensor) -> Tensor:
    return 0.5 * torch.erfc(-x / math.sqrt(2.0))


def _npdf(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)


class MertonCall(Function):
    r"""European call under Merton's jump diffusion.

    The price is the Poisson mixture of Black-Scholes prices

    .. math::
        C = \sum_{n=0}^{N-1} e^{-\lambda' T} \frac{(\lambda' T)^n}{n!}\, \mathrm{BS}(S, K, r_n, \sigma_n, T),

    :math:`\lambda' = \lambda (1 + \kappa)`, :math:`r_n = r - \lambda \kappa + n \ln(1 + \kappa) / T`,
    :math:`\sigma_n^2 = \sigma^2 + n \delta^2 / T`.

    Use :func:`merton_call`, which broadcasts the tensor arguments.

    Args:
        spot: current price :math:`S`, positive.
        strike: :math:`K`, positive.
        sigma: diffusive volatility, positive.
        intensity: jumps per year :math:`\lambda`, positive.
        kappa: expected relative jump size, above -1. 0 means that jumps do not move the price on average.
        delta: standard deviation of the log jump.
        rate: continuously compounded short rate.
        maturity: years to expiry, positive.
        terms: number of terms of the mixture.

    Returns:
        Price, same shape as ``spot``; differentiable in ``spot``, ``strike``, ``sigma`` and ``intensity``.
    """

    @staticmethod
    def _components(spot, strike, sigma, intensity, kappa, delta, rate, maturity, terms):
        n = torch.arange(terms, dtype=spot.dtype, device=spot.device)
        S, K, vol, lam = (u[..., None] for u in (spot, strike, sigma, intensity))
        mean_jumps = lam * (1 + kappa) * maturity
        weight = torch.exp(n * mean_jumps.log() - mean_jumps - torch.lgamma(n + 1))
        r_n = rate - lam * kappa + n * math.log1p(kappa) / maturity
        s_n = torch.sqrt(vol * vol + n * delta**2 / maturity)
        root = s_n * math.sqrt(maturity)
        d1 = (torch.log(S / K) + r_n * maturity) / root + 0.5 * root
        discount = torch.exp(-r_n * maturity)
        return n, weight, s_n, d1, d1 - root, discount

    @staticmethod
    def forward(spot, strike, sigma, intensity, kappa, delta, rate, maturity, terms):
        _, weight, _, d1, d2, discount = MertonCall._components(
            spot, strike, sigma, intensity, kappa, delta, rate, maturity, terms
        )
        bs = spot[..., None] * _ncdf(d1) - strike[..., None] * discount * _ncdf(d2)
        return (weight * bs).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs[:4])
        ctx.params = inputs[4:]

    @staticmethod
    def backward(ctx, grad_price: Tensor):
        spot, strike, sigma, intensity = ctx.saved_tensors
        kappa, _, _, maturity, _ = ctx.params
        n, weight, s_n, d1, d2, discount = MertonCall._components(
            spot, strike, sigma, intensity, *ctx.params
        )
        S, K = spot[..., None], strike[..., None]
        grads = [None] * 9
        if ctx.needs_input_grad[0]:
            grads[0] = grad_price * (weight * _ncdf(d1)).sum(-1)
        if ctx.needs_input_grad[1]:
            grads[1] = -grad_price * (weight * discount * _ncdf(d2)).sum(-1)
        if ctx.needs_input_grad[2]:
            vega = S * _npdf(d1) * math.sqrt(maturity)
            grads[2] = grad_price * (weight * vega * sigma[..., None] / s_n).sum(-1)
        if ctx.needs_input_grad[3]:
            bs = S * _ncdf(d1) - K * discount * _ncdf(d2)
            slope = n / intensity[..., None] - maturity * (1 + kappa)
            grads[3] = grad_price * (weight * slope * bs).sum(-1)
        return tuple(grads)


def merton_call(
    spot: Tensor,
    strike: Tensor,
    sigma: Tensor,
    intensity: Tensor,
    kappa: float = 0.0,
    delta: float = 0.2,
    rate: float = 0.0,
    maturity: float = 1.0,
    terms: int = 30,
) -> Tensor:
    """Broadcasting front end of :class:`MertonCall`."""
    tensors = torch.broadcast_tensors(spot, strike, sigma, intensity)
    return MertonCall.apply(*tensors, kappa, delta, rate, maturity, terms)
