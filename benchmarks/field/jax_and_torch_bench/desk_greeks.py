"""Pricing and risk building blocks with hand-written adjoints (AAD nodes).

Every node is used from calibration loops, so all of them are `torch.autograd.Function`s that
store little and never build a tape of the inner numerics (bisection, recursions, sorting).

Shapes: ``S`` scenarios, ``N`` instruments or cash flows, ``P`` curve pillars, ``T`` days.
"""

import math
from dataclasses import dataclass, field
from typing import List, Literal, Optional, Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

OptionKind = Literal["call", "put"]

_INV_SQRT_2PI = 1.0 / math.sqrt(2.0 * math.pi)
_VOL_BRACKET = (1e-6, 6.0)
TRADING_DAYS = 252


def _phi(x: Tensor) -> Tensor:
    return torch.exp(-0.5 * x * x) * _INV_SQRT_2PI


def _sign(kind: str) -> float:
    try:
        return {"call": 1.0, "put": -1.0}[kind]
    except KeyError:
        raise ValueError(f"kind must be 'call' or 'put', got {kind!r}") from None


def _sum_to(grad: Tensor, shape: torch.Size) -> Tensor:
    """Undo broadcasting."""
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    for i, n in enumerate(shape):
        if n == 1 and grad.shape[i] != 1:
            grad = grad.sum(i, keepdim=True)
    return grad


# --------------------------------------------------------------------------------------
# Vanilla options
# --------------------------------------------------------------------------------------


class BlackScholesPrice(Function):
    """European option on a non-dividend stock; all five inputs broadcast and carry Greeks."""

    @staticmethod
    def forward(ctx, spot, strike, vol, tau, rate, kind="call"):
        w = _sign(kind)
        sq = vol * tau.sqrt()
        d1 = (torch.log(spot / strike) + rate * tau) / sq + 0.5 * sq
        d2 = d1 - sq
        disc = torch.exp(-rate * tau)
        nd1, nd2 = torch.special.ndtr(w * d1), torch.special.ndtr(w * d2)
        ctx.save_for_backward(spot, strike, vol, tau, rate, d1, nd1, nd2, disc)
        ctx.w = w
        return w * (spot * nd1 - strike * disc * nd2)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        spot, strike, vol, tau, rate, d1, nd1, nd2, disc = ctx.saved_tensors
        w = ctx.w
        density = spot * _phi(d1)
        carry = w * strike * disc * nd2
        delta = w * nd1
        dual_delta = -w * disc * nd2
        vega = density * tau.sqrt()
        theta = 0.5 * density * vol / tau.sqrt() + rate * carry
        rho = tau * carry
        greeks = (delta, dual_delta, vega, theta, rho)
        inputs = (spot, strike, vol, tau, rate)
        return tuple(_sum_to(g * k, x.shape) for k, x in zip(greeks, inputs)) + (None,)


class ImpliedVolatility(Function):
    """Black-76 implied volatility by bisection; adjoint by the implicit function theorem.

    ``price`` is undiscounted and must lie strictly between intrinsic value and the forward
    (call) or the strike (put).  The four tensors have one common shape.
    """

    @staticmethod
    def forward(price: Tensor, forward: Tensor, strike: Tensor, tau: Tensor, kind: str) -> Tensor:
        w = _sign(kind)
        lo = torch.full_like(price, _VOL_BRACKET[0])
        hi = torch.full_like(price, _VOL_BRACKET[1])
        log_m = torch.log(forward / strike)
        for _ in range(70):
            mid = 0.5 * (lo + hi)
            sq = mid * tau.sqrt()
            d1 = log_m / sq + 0.5 * sq
            model = w * (
                forward * torch.special.ndtr(w * d1) - strike * torch.special.ndtr(w * (d1 - sq))
            )
            above = model > price
            hi = torch.where(above, mid, hi)
            lo = torch.where(above, lo, mid)
        return 0.5 * (lo + hi)

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, forward, strike, tau, kind = inputs
        ctx.save_for_backward(forward, strike, tau, output)
        ctx.kind = kind

    @staticmethod
    def backward(ctx, g):
        forward, strike, tau, vol = ctx.saved_tensors
        w = _sign(ctx.kind)
        sq = vol * tau.sqrt()
        d1 = torch.log(forward / strike) / sq + 0.5 * sq
        density = forward * _phi(d1)
        scaled = g / (density * tau.sqrt())
        d_forward = -scaled * w * torch.special.ndtr(w * d1)
        d_strike = scaled * w * torch.special.ndtr(w * (d1 - sq))
        d_tau = -scaled * 0.5 * density * vol / tau.sqrt()
        return scaled, d_forward, d_strike, d_tau, None


# --------------------------------------------------------------------------------------
# Curves
# --------------------------------------------------------------------------------------


class DiscountFactors(Function):
    """Discount factors at payment times from zero rates at pillars.

    Linear interpolation of the zero rate, flat outside of the pillars.

    Args:
        zeros: ``(S, P)`` continuously compounded zero rates, one curve per scenario.
        pillars: ``(P,)`` increasing pillar times (not differentiated).
        times: ``(N,)`` payment times in any order (not differentiated).

    Returns ``(S, N)``.
    """

    @staticmethod
    def forward(ctx, zeros, pillars, times):
        hi = torch.searchsorted(pillars, times).clamp(1, pillars.numel() - 1)
        lo = hi - 1
        frac = ((times - pillars[lo]) / (pillars[hi] - pillars[lo])).clamp(0.0, 1.0)
        rate = zeros[:, lo] * (1.0 - frac) + zeros[:, hi] * frac
        df = torch.exp(-rate * times)
        ctx.save_for_backward(df, times, lo, hi, frac)
        ctx.n_pillars = pillars.numel()
        return df

    @staticmethod
    def backward(ctx, g):
        df, times, lo, hi, frac = ctx.saved_tensors
        d_rate = -g * df * times
        d_zeros = d_rate.new_zeros(d_rate.shape[0], ctx.n_pillars)
        d_zeros[:, lo] += d_rate * (1.0 - frac)
        d_zeros[:, hi] += d_rate * frac
        return d_zeros, None, None


# --------------------------------------------------------------------------------------
# Risk measures
# --------------------------------------------------------------------------------------


class EwmaVariance(Function):
    """RiskMetrics recursion ``v[t] = decay * v[t-1] + (1 - decay) * r[t]**2``.

    Args:
        returns: ``(T, N)`` daily returns.
        initial: ``(N,)`` variance before the first day.
        decay: scalar or ``(N,)``.

    Returns the path ``(T, N)`` and the forecast after the last day ``(N,)``.
    """

    @staticmethod
    def forward(returns, initial, decay):
        v = initial
        path = []
        for r in returns:
            v = decay * v + (1.0 - decay) * r * r
            path.append(v)
        return torch.stack(path), v.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        returns, initial, decay = inputs
        path, _ = output
        ctx.save_for_backward(returns, initial, decay, path)

    @staticmethod
    def backward(ctx, g_path, g_last):
        returns, initial, decay, path = ctx.saved_tensors
        adj = g_last
        d_returns = torch.empty_like(returns)
        d_decay = torch.zeros_like(initial)
        for t in range(returns.shape[0] - 1, -1, -1):
            adj = adj + g_path[t]
            d_returns[t] = 2.0 * (1.0 - decay) * returns[t] * adj
            d_decay = d_decay + adj * (path[t] - returns[t] ** 2)
            adj = adj * decay
        return d_returns, adj, _sum_to(d_decay, decay.shape)


class ExpectedShortfall(Function):
    """Mean loss over the worst scenarios of each book.

    The tail holds the ``floor(S * (1 - level))`` largest losses (at least one).

    Args:
        positions: ``(books, N)``.
        scenarios: ``(S, N)`` profit per unit of position.
        level: confidence, e.g. 0.975 for FRTB.

    Returns ``(books,)`` and, for reporting, the tail scenario ids ``(books, k)``.
    """

    @staticmethod
    def forward(ctx, positions, scenarios, level=0.975):
        n = scenarios.shape[0]
        k = max(1, int(n * (1.0 - level) + 1e-9))
        losses = -positions @ scenarios.t()
        worst, ids = losses.topk(k, dim=1)
        ctx.save_for_backward(positions, scenarios, ids)
        ctx.tail = n * (1.0 - level)
        ctx.mark_non_differentiable(ids)
        return worst.mean(1), ids

    @staticmethod
    def backward(ctx, g, _g_ids):
        positions, scenarios, ids = ctx.saved_tensors
        per = g / ctx.tail
        d_positions = d_scenarios = None
        if ctx.needs_input_grad[0]:
            d_positions = -per[:, None] * scenarios[ids].sum(1)
        if ctx.needs_input_grad[1]:
            rows = -per[:, None, None] * positions[:, None, :].expand(-1, ids.shape[1], -1)
            d_scenarios = torch.zeros_like(scenarios)
            d_scenarios.index_add_(0, ids.reshape(-1), rows.reshape(-1, positions.shape[1]))
        return d_positions, d_scenarios, None


# --------------------------------------------------------------------------------------
# Users
# --------------------------------------------------------------------------------------


@dataclass
class Bond:
    face: float
    coupon: float
    maturity: float
    frequency: int = 2
    times: List[float] = field(init=False)

    def __post_init__(self):
        n = int(round(self.maturity * self.frequency))
        self.times = [(i + 1) / self.frequency for i in range(n)]

    def flows(self) -> Tensor:
        c = torch.full((len(self.times),), self.face * self.coupon / self.frequency)
        c[-1] += self.face
        return c


class ZeroCurve(nn.Module):
    """Curve fitted to bond prices, optionally shocked by scenarios."""

    def __init__(self, pillars: Tensor, guess: float = 0.02):
        super().__init__()
        self.register_buffer("pillars", pillars)
        self.zeros = nn.Parameter(torch.full_like(pillars, guess))

    def forward(self, times: Tensor, shocks: Optional[Tensor] = None) -> Tensor:
        z = self.zeros[None] if shocks is None else self.zeros + shocks
        return DiscountFactors.apply(z, self.pillars, times)

    def price(self, bond: Bond) -> Tensor:
        return self(torch.tensor(bond.times, dtype=self.pillars.dtype)) @ bond.flows().to(self.pillars)


def surface_loss(spot: Tensor, strikes: Tensor, vols: Tensor, expiries: Tensor, rate: Tensor,
                 quotes: Tensor, kind: OptionKind = "call") -> Tensor:
    """Squared price error of a grid, expiries (N, 1) against strikes (K,)."""
    model = BlackScholesPrice.apply(spot, strikes, vols, expiries, rate, kind)
    return ((model - quotes) ** 2).mean()


def quasi_likelihood(returns: Tensor, initial: Tensor, logit: Tensor) -> Tuple[Tensor, Tensor]:
    path, forecast = EwmaVariance.apply(returns, initial, torch.sigmoid(logit))
    lagged = torch.cat([initial[None], path[:-1]])
    return (lagged.log() + returns**2 / lagged).mean(), forecast


def smile(price: Tensor, forward: Tensor, strike: Tensor, tau: Tensor) -> Tensor:
    """Out-of-the-money convention: puts below the forward, calls above."""
    call = ImpliedVolatility.apply(price, forward, strike, tau, "call")
    put = ImpliedVolatility.apply(price + strike - forward, forward, strike, tau, "put")
    return torch.where(strike < forward, put, call)


def hedge_book(scenarios: Tensor, book: Tensor, hedges: Tensor, level: float = 0.975,
               steps: int = 50, lr: float = 0.05) -> Tensor:
    ratio = torch.zeros(hedges.shape[0], requires_grad=True)
    opt = torch.optim.SGD([ratio], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        es, _ = ExpectedShortfall.apply((book + ratio @ hedges)[None], scenarios, level)
        es.sum().backward()
        opt.step()
    return ratio.detach()


if __name__ == "__main__":
    torch.manual_seed(0)
    curve = ZeroCurve(torch.tensor([0.5, 1.0, 2.0, 5.0, 10.0]))
    print("price", curve.price(Bond(100.0, 0.03, 7.0)).item())
    daily = 0.01 * torch.randn(TRADING_DAYS, 3)
    nll, nxt = quasi_likelihood(daily, daily.var(0), torch.tensor(2.7))
    print("annualised", (nxt * TRADING_DAYS).sqrt())
    print("hedge", hedge_book(torch.randn(500, 4), torch.tensor([1.0, -0.5, 0.2, 0.0]), torch.eye(4)[:2]))
