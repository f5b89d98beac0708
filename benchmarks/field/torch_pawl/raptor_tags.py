"""Sequence blocks for GPS/IMU tags worn by trained falcons.

Fixes come at uneven times (the tag sleeps when the bird is hooded), each with an IMU feature
vector.  The network keeps a leaky memory over the gaps, mixes the sequence in the Fourier
domain, summarises each flight bout, and finally predicts where the bird looks on the sphere.
"""
import math

import torch
from torch import nn

SMALL_KAPPA = 0.05


def _per_bout(values, bout, n):
    out = values.new_zeros((n,) + values.shape[1:])
    return out.index_add(0, bout, values)


class GlideMemory(torch.autograd.Function):
    r"""Leaky memory with per-channel rate.

    h_t = exp(-rate * gap_t) * h_{t-1} + x_t

    Parameters
    ----------
    x : (T, B, C) features
    gap : (T, B) seconds since the fix before; gap[0] is the age of ``h0``
    rate : (C,) nonnegative rates, 1/s
    h0 : (B, C) memory before the first fix

    Returns
    -------
    (T, B, C) the memory after each fix
    """

    @staticmethod
    def forward(ctx, x, gap, rate, h0):
        keep = torch.exp(-gap[..., None] * rate)
        states, h = [], h0
        for t in range(x.shape[0]):
            h = keep[t] * h + x[t]
            states.append(h)
        hs = torch.stack(states)
        ctx.save_for_backward(gap, rate, h0, keep, hs)
        return hs

    @staticmethod
    def backward(ctx, g):
        gap, rate, h0, keep, hs = ctx.saved_tensors
        before = torch.cat([h0[None], hs[:-1]])
        adj = torch.empty_like(g)
        carry = torch.zeros_like(h0)
        for t in reversed(range(g.shape[0])):
            carry = g[t] + keep[t] * carry
            adj[t] = carry
        d_exponent = adj * before * keep
        d_gap = -(d_exponent * rate).sum(-1)
        d_rate = -(d_exponent * gap[..., None]).sum((0, 1))
        return adj, d_gap, d_rate, keep[0] * adj[0]


class WingbeatFilter(torch.autograd.Function):
    """Circular filtering of x (B, T, C) along time by a half spectrum.

    re, im: (T // 2 + 1, C), the real and imaginary parts of the filter; T may be odd.
    """

    @staticmethod
    def forward(ctx, x, re, im):
        n = x.shape[1]
        spec = torch.fft.rfft(x, dim=1)
        ctx.save_for_backward(spec, re, im)
        ctx.n = n
        return torch.fft.irfft(spec * torch.complex(re, im), n=n, dim=1)

    @staticmethod
    def backward(ctx, g):
        spec, re, im = ctx.saved_tensors
        n = ctx.n
        gs = torch.fft.rfft(g, dim=1)
        gx = torch.fft.irfft(gs * torch.complex(re, -im), n=n, dim=1)
        twice = re.new_full((re.shape[0], 1), 2.0)
        twice[0] = 1.0
        if n % 2 == 0:
            twice[-1] = 1.0
        prod = (gs * spec.conj()).sum(0) * twice / n
        g_im = prod.imag.clone()
        g_im[0] = 0.0
        if n % 2 == 0:
            g_im[-1] = 0.0
        return gx, prod.real, g_im


class BoutSpread(torch.autograd.Function):
    """Mean and variance of the features of each flight bout.

    features (N, C), bout (N,) int64 in [0, n_bouts), not necessarily sorted.
    `ddof` is as in numpy.var; bouts with no more than `ddof` fixes get a divisor of 1.
    Returns two (n_bouts, C) tensors.
    """

    @staticmethod
    def forward(ctx, features, bout, n_bouts, ddof=0):
        ones = features.new_ones(features.shape[0], 1)
        count = _per_bout(ones, bout, n_bouts)
        mean = _per_bout(features, bout, n_bouts) / count.clamp(min=1)
        centred = features - mean[bout]
        var = _per_bout(centred**2, bout, n_bouts) / (count - ddof).clamp(min=1)
        ctx.save_for_backward(centred, bout, count)
        return mean, var

    @staticmethod
    def backward(ctx, g_mean, g_var):
        centred, bout, count = ctx.saved_tensors
        n = count.clamp(min=1)
        g = (g_mean / n)[bout] + 2 * centred * (g_var / n)[bout]
        return g, None, None, None


class GazeNLL(torch.autograd.Function):
    """Von Mises-Fisher loss on the sphere, averaged over the valid fixes.

    `pull` (..., 3) is the unnormalised prediction: its direction is the mean gaze, its length
    the concentration (zero length: uniform).  `gaze` (..., 3) are the seen unit vectors and
    `valid` (...) a bool mask.
    """

    @staticmethod
    def _ratio(kappa):
        """A(kappa) / kappa with A = coth(kappa) - 1 / kappa."""
        safe = kappa.clamp(min=SMALL_KAPPA)
        big = (1 / torch.tanh(safe) - 1 / safe) / safe
        k2 = kappa**2
        small = 1 / 3 - k2 / 45 + 2 * k2**2 / 945 - k2**3 / 4725
        return torch.where(kappa < SMALL_KAPPA, small, big)

    @staticmethod
    def forward(ctx, pull, gaze, valid):
        k2 = (pull**2).sum(-1)
        kappa = torch.where(k2 > 0, k2, torch.ones_like(k2)).sqrt() * (k2 > 0)
        safe = kappa.clamp(min=SMALL_KAPPA)
        big = safe + torch.log(-torch.expm1(-2 * safe)) - torch.log(2 * safe)
        small = k2 / 6 - k2**2 / 180 + k2**3 / 2835
        log_norm = math.log(4 * math.pi) + torch.where(kappa < SMALL_KAPPA, small, big)
        each = log_norm - (pull * gaze).sum(-1)
        share = valid.to(pull.dtype) / valid.sum().clamp(min=1)
        ctx.save_for_backward(pull, gaze, kappa, share)
        return (each * share).sum()

    @staticmethod
    def backward(ctx, g):
        pull, gaze, kappa, share = ctx.saved_tensors
        s = (g * share)[..., None]
        ratio = GazeNLL._ratio(kappa)[..., None]
        return s * (ratio * pull - gaze), -s * pull, None


class RaptorBlock(nn.Module):
    def __init__(self, steps, channels):
        super().__init__()
        self.log_rate = nn.Parameter(torch.full((channels,), -1.0))
        self.re = nn.Parameter(torch.ones(steps // 2 + 1, channels))
        self.im = nn.Parameter(torch.zeros(steps // 2 + 1, channels))
        self.head = nn.Linear(channels, 3)

    def forward(self, x, gap):
        h0 = x.new_zeros(x.shape[1:])
        h = GlideMemory.apply(x, gap, self.log_rate.exp(), h0)
        mixed = WingbeatFilter.apply(h.transpose(0, 1), self.re, self.im)
        return self.head(mixed)
