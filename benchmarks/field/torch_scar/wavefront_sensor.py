"""Adaptive-optics pieces: spot centroids, modal reconstruction, image sharpness."""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _centred(n, like):
    return torch.arange(n, dtype=like.dtype, device=like.device) - (n - 1) / 2


class SpotCentroid(Function):
    @staticmethod
    def forward(ctx, spots, rel_threshold=0.0, pixel_scale=1.0, eps=1e-6):
        rows, cols = spots.shape[-2:]
        floor = rel_threshold * spots.amax(dim=(-2, -1), keepdim=True)
        weight = (spots - floor).clamp(min=0)
        flux = weight.sum((-2, -1)) + eps
        x = _centred(cols, spots)
        y = _centred(rows, spots)[:, None]
        cx = (weight * x).sum((-2, -1)) / flux
        cy = (weight * y).sum((-2, -1)) / flux
        ctx.save_for_backward(weight > 0, flux, cx, cy)
        ctx.pixel_scale = pixel_scale
        return torch.stack([cx, cy], -1) * pixel_scale

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        lit, flux, cx, cy = ctx.saved_tensors
        rows, cols = lit.shape[-2:]
        x = _centred(cols, grad)
        y = _centred(rows, grad)[:, None]
        g = grad * ctx.pixel_scale / flux[..., None]
        gx, gy = (part[..., None, None] for part in g.unbind(-1))
        out = gx * (x - cx[..., None, None]) + gy * (y - cy[..., None, None])
        return out * lit, None, None, None


class ModalSlopes(Function):

    @staticmethod
    def forward(modes, response, axis_gain, valid):
        half = response.shape[0] // 2
        raw = (modes @ response.T).unflatten(-1, (2, half))
        return raw * axis_gain[:, None] * valid[..., None, :]

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        modes, response, axis_gain, valid = ctx.saved_tensors
        grad = grad * valid[..., None, :]
        g_modes = g_response = g_gain = None
        scaled = (grad * axis_gain[:, None]).flatten(-2)
        if ctx.needs_input_grad[0]:
            g_modes = (scaled @ response).sum_to_size(modes.shape)
        if ctx.needs_input_grad[1]:
            per_frame = modes.expand(*scaled.shape[:-1], modes.shape[-1])
            g_response = scaled.reshape(-1, response.shape[0]).T @ per_frame.reshape(-1, modes.shape[-1])
        if ctx.needs_input_grad[2]:
            raw = (modes @ response.T).unflatten(-1, grad.shape[-2:])
            g_gain = (grad * raw).sum(-1).reshape(-1, 2).sum(0)
        return g_modes, g_response, g_gain, None


class PupilStrehl(Function):
    r"""On-axis Strehl ratio of an aberrated, apodised pupil.

    .. math:: S = \frac{|\sum a e^{i r \varphi}|^2}{(\sum a)^2}

    No small-aberration expansion is made, so the value holds for any phase.

    Args:
        phase: ``(..., H, W)`` wavefront phase in radian at the sensing wavelength.
        amplitude: ``(H, W)`` or ``(..., H, W)`` nonnegative transmission; it may lack leading dims of
            ``phase`` (or hold them as 1) but has no further ones.
        pupil: bool, broadcasts to ``phase`` and must leave at least one lit pixel per wavefront. Samples
            outside contribute nothing.
        wavelength_ratio: float ``r``, sensing over science wavelength.

    Returns:
        ``(...)`` Strehl ratio in [0, 1].
    """

    @staticmethod
    def forward(ctx, phase, amplitude, pupil, wavelength_ratio=1.0):
        lit = (amplitude * pupil).expand(phase.shape)
        angle = wavelength_ratio * phase
        re = (lit * angle.cos()).sum((-2, -1))
        im = (lit * angle.sin()).sum((-2, -1))
        total = lit.sum((-2, -1))
        strehl = (re * re + im * im) / total**2
        ctx.save_for_backward(phase, amplitude, pupil, re, im, total, strehl)
        ctx.ratio = wavelength_ratio
        return strehl

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        phase, amplitude, pupil, re, im, total, strehl = ctx.saved_tensors
        angle = ctx.ratio * phase
        cos, sin = angle.cos(), angle.sin()
        re, im = re[..., None, None], im[..., None, None]
        scale = (2.0 * grad / total**2)[..., None, None]
        grad_phase = grad_amplitude = None
        if ctx.needs_input_grad[0]:
            grad_phase = ctx.ratio * scale * amplitude * pupil * (im * cos - re * sin)
        if ctx.needs_input_grad[1]:
            per_pixel = scale * (re * cos + im * sin - (strehl * total)[..., None, None])
            grad_amplitude = (per_pixel * pupil).sum_to_size(amplitude.shape)
        return grad_phase, grad_amplitude, None, None


class SharpnessLoss(nn.Module):
    def __init__(self, size: int, obscuration: float = 0.0, wavelength_ratio: float = 1.0):
        super().__init__()
        c = torch.arange(size) - (size - 1) / 2
        r = torch.hypot(c[:, None], c[None, :]) / (size / 2)
        self.register_buffer("pupil", (r <= 1.0) & (r >= obscuration))
        self.log_apod = nn.Parameter(torch.zeros(size, size))
        self.wavelength_ratio = wavelength_ratio

    def forward(self, phase):
        s = PupilStrehl.apply(phase, self.log_apod.exp(), self.pupil, self.wavelength_ratio)
        return -(s.clamp(min=math.ulp(1.0)).log()).mean()
