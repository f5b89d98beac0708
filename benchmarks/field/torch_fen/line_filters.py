"""1-D filters used in front of the pitch tracker."""
from typing import Optional

import torch
import torch.nn.functional as F


class RunningMedian(torch.autograd.Function):
    """Running median along the last axis.

    Args:
        x (Tensor): signal, ``(..., T)``.
        window (int): odd number of samples, at most ``2 T - 1``.
        edge (str): what lies beyond the ends, ``"zero"`` (as scipy's ``medfilt``)
            or ``"replicate"`` (first / last sample repeated).

    Returns:
        Tensor: ``(..., T)``
    """

    @staticmethod
    def forward(ctx, x: torch.Tensor, window: int = 5, edge: str = "zero") -> torch.Tensor:
        if window % 2 != 1:
            raise ValueError("window must be odd")
        half = window // 2
        flat = x.reshape(-1, 1, x.shape[-1])
        if edge == "replicate":
            padded = F.pad(flat, (half, half), mode="replicate")
        elif edge == "zero":
            padded = F.pad(flat, (half, half))
        else:
            raise ValueError(f"unknown edge {edge!r}")
        values, where = padded.squeeze(1).unfold(-1, window, 1).median(dim=-1)
        start = torch.arange(x.shape[-1], device=x.device)
        ctx.save_for_backward(where + start)
        ctx.half = half
        return values.reshape(x.shape)

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        (source,) = ctx.saved_tensors
        n, half = grad.shape[-1], ctx.half
        buf = grad.new_zeros(source.shape[0], n + 2 * half)
        buf.scatter_add_(1, source, grad.reshape(-1, n))
        return buf[:, half:half + n].reshape(grad.shape), None, None


def _stuff(x, factor, length):
    out = x.new_zeros(*x.shape[:-1], length)
    out[..., ::factor] = x
    return out


class PolyphaseResample(torch.autograd.Function):
    """Upsample by ``up``, filter with ``h``, keep every ``down``-th sample.

    The same result as ``scipy.signal.upfirdn(h, x, up, down)`` on the last axis:
    ``ceil(((T - 1) * up + K) / down)`` samples out of ``x`` ``(..., T)`` and
    ``h`` ``(K,)``.
    """

    @staticmethod
    def forward(ctx, x: torch.Tensor, h: torch.Tensor, up: int = 1, down: int = 1) -> torch.Tensor:
        taps = h.shape[0]
        stuffed = _stuff(x.reshape(-1, 1, x.shape[-1]), up, (x.shape[-1] - 1) * up + 1)
        full = F.conv1d(F.pad(stuffed, (taps - 1, taps - 1)), h.flip(0).view(1, 1, -1), stride=down)
        ctx.save_for_backward(x, h)
        ctx.rates = (up, down)
        return full.reshape(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        x, h = ctx.saved_tensors
        up, down = ctx.rates
        n, taps = x.shape[-1], h.shape[0]
        inner = (n - 1) * up + 1
        g = _stuff(grad.reshape(-1, 1, grad.shape[-1]), down, inner + taps - 1)
        gx = gh = None
        if ctx.needs_input_grad[0]:
            gx = F.conv1d(g, h.view(1, 1, -1))[..., ::up].reshape(x.shape)
        if ctx.needs_input_grad[1]:
            stuffed = _stuff(x.reshape(-1, n), up, inner)
            gh = (g.squeeze(1).unfold(-1, inner, 1) * stuffed.unsqueeze(1)).sum((0, 2))
        return gx, gh, None, None


def _half_spectrum_weights(bins: int, like: torch.Tensor) -> torch.Tensor:
    w = torch.full((bins,), 2.0, dtype=like.dtype, device=like.device)
    w[0] = 1.0
    w[-1] = 1.0
    return w


class RealCepstrum(torch.autograd.Function):
    """Real cepstrum ``irfft(0.5 * log(|rfft(x)|^2 + floor))`` of frames (..., T).

    ``n_fft`` may be any number of 2 or more (frames are cut or zero padded to it)
    and is the frame length when not given; ``n_ceps`` keeps the first
    coefficients only (default: all ``n_fft``).
    """

    @staticmethod
    def forward(ctx, x, n_fft: Optional[int] = None, n_ceps: Optional[int] = None, floor: float = 1e-6):
        n = x.shape[-1] if n_fft is None else n_fft
        spec = torch.fft.rfft(x, n=n)
        power = spec.real.square() + spec.imag.square() + floor
        ceps = torch.fft.irfft(0.5 * power.log(), n=n)
        ctx.save_for_backward(spec, power)
        ctx.n, ctx.length = n, x.shape[-1]
        return ceps if n_ceps is None else ceps[..., :n_ceps].clone()

    @staticmethod
    def backward(ctx, grad):
        spec, power = ctx.saved_tensors
        n = ctx.n
        # irfft: each stored bin stands for itself and its mirror image
        weights = _half_spectrum_weights(spec.shape[-1], power)
        g_log = torch.fft.rfft(F.pad(grad, (0, n - grad.shape[-1])), n=n).real * weights / n
        g_spec = spec * (g_log / power)
        # rfft: only the stored bins, no mirror images
        g = torch.fft.ifft(F.pad(g_spec, (0, n - g_spec.shape[-1])), n=n).real * n
        return F.pad(g, (0, ctx.length - n)), None, None, None


class PitchFrontEnd(torch.nn.Module):
    """Resample with a trained filter, then cepstra of overlapping frames."""

    def __init__(self, up: int = 1, down: int = 2, taps: int = 15, frame: int = 64, hop: int = 32):
        super().__init__()
        self.fir = torch.nn.Parameter(torch.hann_window(taps + 2, periodic=False)[1:-1] / taps)
        self.up, self.down, self.frame, self.hop = up, down, frame, hop

    def forward(self, wave: torch.Tensor) -> torch.Tensor:
        low = PolyphaseResample.apply(wave, self.fir, self.up, self.down)
        return RealCepstrum.apply(low.unfold(-1, self.frame, self.hop), None, 24)


def smooth_track(f0: torch.Tensor, window: int = 5) -> torch.Tensor:
    return RunningMedian.apply(f0, window, "replicate")
