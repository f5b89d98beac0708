"""Rating and sizing formulas for heat exchangers."""
import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

FLOWS = ("counter", "parallel")


def _phi(x):
    """(1 - exp(-x)) / x"""
    small = x < 1e-4
    safe = torch.where(small, torch.ones_like(x), x)
    return torch.where(small, 1.0 - x / 2 + x * x / 6, -torch.expm1(-safe) / safe)


def _chi(x):
    """(x - 1 + exp(-x)) / x**2"""
    small = x < 0.1
    safe = torch.where(small, torch.ones_like(x), x)
    series = torch.zeros_like(x)
    for k in (11, 10, 9, 8, 7, 6, 5, 4, 3, 2):
        series = (1.0 - x / (k + 1) * series) if k != 2 else 0.5 * (1.0 - x / 3 * series)
    return torch.where(small, series, (safe + torch.expm1(-safe)) / safe.square())


class EffectivenessNTU(Function):
    """Effectiveness of a two-stream exchanger.

    ntu >= 0 and capacity ratio 0 <= cr <= 1 broadcast; ``flow`` is "counter" or "parallel". Balanced counterflow
    (cr = 1) is handled by its limit ntu / (1 + ntu).
    """

    @staticmethod
    def forward(ctx, ntu, cr, flow="counter"):
        if flow not in FLOWS:
            raise ValueError(flow)
        if flow == "parallel":
            eff = -torch.expm1(-ntu * (1.0 + cr)) / (1.0 + cr)
        else:
            x = ntu * (1.0 - cr)
            top = ntu * _phi(x)
            eff = top / (top + torch.exp(-x))
        ctx.save_for_backward(ntu, cr, eff)
        ctx.flow = flow
        return eff

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        ntu, cr, eff = ctx.saved_tensors
        if ctx.flow == "parallel":
            decay = torch.exp(-ntu * (1.0 + cr))
            d_ntu = decay
            d_cr = (ntu * decay - eff) / (1.0 + cr)
        else:
            x = ntu * (1.0 - cr)
            decay = torch.exp(-x)
            bottom = ntu * _phi(x) + decay
            rest = decay / bottom
            d_ntu = rest * ((1.0 - cr) + cr * rest)
            d_cr = -ntu.square() * decay * _chi(x) / bottom.square()
        return (g * d_ntu).sum_to_size(ntu.shape), (g * d_cr).sum_to_size(cr.shape), None


def _log_mean(a, b):
    mid, gap = 0.5 * (a + b), a - b
    close = gap.abs() < 1e-3 * mid
    log = torch.where(close, torch.ones_like(gap), torch.log(a / b))
    return torch.where(close, mid - gap.square() / (12 * mid), gap / log), close, log


class LogMeanDelta(Function):
    """Log-mean temperature difference from the four terminal temperatures (same shape, differences positive)."""

    @staticmethod
    def forward(ctx, hot_in, hot_out, cold_in, cold_out, flow="counter"):
        if flow == "counter":
            a, b = hot_in - cold_out, hot_out - cold_in
        else:
            a, b = hot_in - cold_in, hot_out - cold_out
        lm, close, log = _log_mean(a, b)
        ctx.save_for_backward(a, b, lm, close, log)
        return lm

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        a, b, lm, close, log = ctx.saved_tensors
        r = (a - b) / (0.5 * (a + b))
        da = torch.where(close, 0.5 - r / 6 + r * r / 24, (1.0 - lm / a) / log)
        db = torch.where(close, 0.5 + r / 6 + r * r / 24, (lm / b - 1.0) / log)
        return g * da, g * db, -g * db, -g * da, None


class FinConductance(Function):
    @staticmethod
    def forward(ctx, h, k, t, length, gap, tip="adiabatic"):
        m = torch.sqrt(2.0 * h / (k * t))
        lc = length + 0.5 * t if tip == "corrected" else length
        ctx.save_for_backward(h, k, t, length, gap, m, m * lc)
        ctx.tip = tip
        return (h * (gap + 2.0 * torch.tanh(m * lc) / m)).sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        h, k, t, length, gap, m, x = ctx.saved_tensors
        g = g.unsqueeze(-1)
        th = torch.tanh(x)
        sech2 = 1.0 - th * th
        g_m = g * 2.0 * h * (x * sech2 - th) / m
        g_h = g * (gap + 2.0 * th / m) + 0.5 * g_m / h
        g_k = -0.5 * g_m / k
        g_t = -0.5 * g_m / t
        g_len = 2.0 * g * h * sech2
        return (g_h.sum_to_size(h.shape), g_k.sum_to_size(k.shape), g_t.sum_to_size(t.shape),
                g_len.sum_to_size(length.shape), (g * h).sum_to_size(gap.shape), None)


def duty(ua, c_hot, c_cold, hot_in, cold_in, flow="counter"):
    c_min, c_max = torch.minimum(c_hot, c_cold), torch.maximum(c_hot, c_cold)
    return EffectivenessNTU.apply(ua / c_min, c_min / c_max, flow) * c_min * (hot_in - cold_in)


def required_area(q, u, temps, flow="counter", correction=1.0):
    return q / (u * correction * LogMeanDelta.apply(*temps, flow))


if __name__ == "__main__":
    ntu = torch.linspace(0.2, 4.0, 5, dtype=torch.float64)
    print(EffectivenessNTU.apply(ntu, torch.tensor(0.6, dtype=torch.float64)))
