# Transaction-cost analytics: transient impact, illiquidity, slippage.
import torch
from torch.autograd import Function

BPS = 1.0e4


def _lag_matrix(kernel):
    """(..., T) decay by lag -> (..., T, T) lower-triangular Toeplitz matrix."""
    t = torch.arange(kernel.shape[-1], device=kernel.device)
    lag = t[:, None] - t[None, :]
    return torch.where(lag >= 0, kernel[..., lag.clamp(min=0)], kernel.new_zeros(()))


class TransientImpact(Function):
    """impact_t = sum_{s<=t} kernel[t-s] * sign(q_s)|q_s|^power; q (days, assets, bins), nonzero; kernel (assets, bins)."""

    @staticmethod
    def forward(ctx, trades, kernel, power=0.5):
        pressure = trades.sign() * trades.abs().pow(power)
        ctx.save_for_backward(trades, kernel)
        ctx.power = power
        return torch.einsum("ats,das->dat", _lag_matrix(kernel), pressure)

    @staticmethod
    def backward(ctx, grad):
        trades, kernel = ctx.saved_tensors
        power = ctx.power
        pressure = trades.sign() * trades.abs().pow(power)
        d_pressure = torch.einsum("ats,dat->das", _lag_matrix(kernel), grad)
        d_trades = d_pressure * power * trades.abs().pow(power - 1)
        bins = kernel.shape[-1]
        d_kernel = torch.stack(
            [(grad[..., lag:] * pressure[..., : bins - lag]).sum(-1).mean(0) for lag in range(bins)], dim=-1
        )
        return d_trades, d_kernel, None


class AmihudRatio(Function):
    @staticmethod
    def forward(ctx, returns, turnover, traded, dim=-1, scale=1e6, log=False):
        ok = traded.expand(returns.shape)
        days = ok.sum(dim, keepdim=True).clamp(min=1)
        safe = torch.where(ok, turnover, torch.ones_like(turnover))
        daily = torch.where(ok, returns.abs() / safe, torch.zeros_like(returns))
        ratio = scale * daily.sum(dim, keepdim=True) / days
        ctx.save_for_backward(returns, turnover, traded)
        ctx.dim, ctx.scale, ctx.log = dim, scale, log
        return (ratio.log1p() if log else ratio).squeeze(dim)

    @staticmethod
    def backward(ctx, grad):
        returns, turnover, traded = ctx.saved_tensors
        dim = ctx.dim
        ok = traded.expand(returns.shape)
        days = ok.sum(dim, keepdim=True).clamp(min=1)
        safe = torch.where(ok, turnover, torch.ones_like(turnover))
        zero = torch.zeros_like(returns)
        g = grad.unsqueeze(dim) * ctx.scale / days
        if ctx.log:
            ratio = ctx.scale * torch.where(ok, returns.abs() / safe, zero).sum(dim, keepdim=True) / days
            g = g / (1 + ratio)
        d_returns = torch.where(ok, g * returns.sign() / safe, zero)
        d_turnover = torch.where(ok, -g * returns.abs() / safe**2, zero)
        return d_returns.sum_to_size(returns.shape), d_turnover.sum_to_size(turnover.shape), None, None, None, None


class VwapSlippage(Function):
    """Cost in bps of fills against the interval VWAP; side is +1 buy, -1 sell (None: all buys); tape dims last."""

    @staticmethod
    def forward(ctx, fill, price, size, in_window, side=None):
        size = size * in_window
        volume = size.sum(-1)
        vwap = (price * size).sum(-1) / volume
        direction = torch.ones_like(fill) if side is None else side.to(fill.dtype)
        ctx.save_for_backward(fill, price, size, in_window, direction, volume, vwap)
        return BPS * direction * (fill - vwap) / vwap

    @staticmethod
    def backward(ctx, grad):
        fill, price, size, in_window, direction, volume, vwap = ctx.saved_tensors
        d_fill = BPS * grad * direction / vwap
        d_vwap = (-BPS * grad * fill / vwap**2 / volume)[..., None]
        d_price = d_vwap * size
        d_size = d_vwap * (price - vwap[..., None]) * in_window
        return d_fill, d_price, d_size, None, None


class CostModel:
    def __init__(self, half_life_bins: float, bins: int, power: float = 0.5):
        self.power = power
        self.log_level = torch.zeros((), requires_grad=True)
        self.shape = 0.5 ** (torch.arange(bins) / half_life_bins)

    def __call__(self, trades, volatility):
        kernel = self.log_level.exp() * self.shape * volatility[:, None]
        return (TransientImpact.apply(trades, kernel, self.power) * trades).sum(-1)
