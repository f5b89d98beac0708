"""Pointwise and boundary operators for spiking, sparse-coding and spherical models."""
import math

import torch
from torch import nn


def _sum_to(t, shape):
    """Sums ``t`` over the dimensions that were broadcast from ``shape``."""
    return t if t.shape == shape else t.sum_to_size(shape)


class LogisticSpike(torch.autograd.Function):
    r"""Heaviside step whose backward pass uses a logistic surrogate.

    Forward: :math:`S = \Theta(u)`.

    Backward: the gradient of the step is replaced on purpose by the one of
    :math:`\sigma(k u)`, i.e. :math:`k\,\sigma(ku)\,(1 - \sigma(ku))`.
    """

    @staticmethod
    def forward(ctx, membrane, slope=5.0):
        ctx.save_for_backward(membrane)
        ctx.slope = slope
        return (membrane > 0).to(membrane.dtype)

    @staticmethod
    def backward(ctx, grad_output):
        (membrane,) = ctx.saved_tensors
        s = torch.sigmoid(ctx.slope * membrane)
        return grad_output * ctx.slope * s * (1 - s), None


class SpikingLayer(nn.Module):
    def __init__(self, beta=0.9, threshold=1.0, slope=5.0):
        super().__init__()
        self.beta, self.threshold, self.slope = beta, threshold, slope

    def forward(self, current):
        mem = torch.zeros_like(current[0])
        spikes = []
        for inp in current:
            mem = self.beta * mem + inp
            spk = LogisticSpike.apply(mem - self.threshold, self.slope)
            mem = mem - spk.detach() * self.threshold
            spikes.append(spk)
        return torch.stack(spikes)


class SoftThresholdFunction(torch.autograd.Function):
    """
    Shrinkage operator ``sign(x) * max(|x| - lam, 0)``.

    Parameters
    ----------
    x : Tensor
        Codes of shape ``(batch, channels, ...)``.
    lam : Tensor
        Positive thresholds, one for each channel, shape ``(channels,)``.
    """

    @staticmethod
    def _view(lam, ndim):
        return lam.view(1, -1, *([1] * (ndim - 2)))

    @staticmethod
    def forward(ctx, x, lam):
        level = SoftThresholdFunction._view(lam, x.dim())
        active = x.abs() > level
        ctx.save_for_backward(active)
        return torch.where(active, x - torch.sign(x) * level, torch.zeros_like(x))

    @staticmethod
    def backward(ctx, grad_output):
        (active,) = ctx.saved_tensors
        grad_x = torch.where(active, grad_output, torch.zeros_like(grad_output))
        dims = [d for d in range(grad_x.dim()) if d != 1]
        grad_lam = -grad_x.sum(dims)
        return grad_x, grad_lam


class ListaStep(nn.Module):
    """One unrolled iteration of learned iterative shrinkage."""

    def __init__(self, n_input, n_code, lam=0.1):
        super().__init__()
        self.encode = nn.Linear(n_input, n_code, bias=False)
        self.mutual = nn.Linear(n_code, n_code, bias=False)
        self.lam = nn.Parameter(torch.full((n_code,), float(lam)))

    def forward(self, y, code):
        return SoftThresholdFunction.apply(self.encode(y) + self.mutual(code), self.lam)


class CircularDistanceFunction(torch.autograd.Function):

    @staticmethod
    def forward(ctx, x, y, period=2 * math.pi, p=1):
        arc = torch.remainder(x - y, period)
        dist = torch.minimum(arc, period - arc)
        ctx.save_for_backward(arc)
        ctx.period, ctx.p = period, p
        ctx.shapes = x.shape, y.shape
        return dist if p == 1 else dist ** p

    @staticmethod
    def backward(ctx, grad_output):
        (arc,) = ctx.saved_tensors
        half = 0.5 * ctx.period
        dist = torch.minimum(arc, ctx.period - arc)
        slope = torch.sign(half - arc) * (arc != 0)
        if ctx.p != 1:
            slope = slope * ctx.p * dist ** (ctx.p - 1)
        g = grad_output * slope
        sx, sy = ctx.shapes
        return _sum_to(g, sx), _sum_to(-g, sy), None, None


def pairwise_circular_cost(x, y, period=2 * math.pi, p=1):
    """Cost matrix ``(n, m)`` between two sets of phases."""
    return CircularDistanceFunction.apply(x[:, None], y[None, :], period, p)


class SphericalPadFunction(torch.autograd.Function):
    """Halo padding of an equiangular latitude-longitude grid.

    Longitude is periodic. Beyond a pole the rows continue on the opposite
    meridian, so they are mirrored and rolled by half a turn; components of a
    tangential vector field change their sign there.

    Args:
        x: Field of shape ``(..., nlat, nlon)``.
        pad_lat: Rows added at each pole, at most ``nlat``.
        pad_lon: Columns added at each side, at most ``nlon``.
        vector: Whether the field holds components of a tangential vector.
    """

    @staticmethod
    def forward(ctx, x, pad_lat=1, pad_lon=1, vector=False):
        nlat, nlon = x.shape[-2:]
        if pad_lat > nlat or pad_lon > nlon:
            raise ValueError("the halo is wider than the grid")
        ctx.pads = pad_lat, pad_lon
        ctx.sign = sign = -1.0 if vector else 1.0
        north = sign * torch.roll(x[..., :pad_lat, :].flip(-2), nlon // 2, -1)
        south = sign * torch.roll(x[..., nlat - pad_lat:, :].flip(-2), nlon // 2, -1)
        y = torch.cat((north, x, south), -2)
        return torch.cat((y[..., nlon - pad_lon:], y, y[..., :pad_lon]), -1)

    @staticmethod
    def backward(ctx, grad):
        pad_lat, pad_lon = ctx.pads
        nlat = grad.shape[-2] - 2 * pad_lat
        nlon = grad.shape[-1] - 2 * pad_lon
        g = grad[..., pad_lon:pad_lon + nlon].clone()
        g[..., nlon - pad_lon:] += grad[..., :pad_lon]
        g[..., :pad_lon] += grad[..., pad_lon + nlon:]

        north, body, south = g.split((pad_lat, nlat, pad_lat), -2)
        out = body.clone()
        out[..., :pad_lat, :] += ctx.sign * torch.roll(north, -(nlon // 2), -1).flip(-2)
        out[..., nlat - pad_lat:, :] += ctx.sign * torch.roll(south, -(nlon // 2), -1).flip(-2)
        return out, None, None, None


class SphericalConv2d(nn.Conv2d):
    """Convolution on a latitude-longitude grid with halo padding."""

    def forward(self, x):
        kh, kw = self.kernel_size
        x = SphericalPadFunction.apply(x, kh // 2, kw // 2)
        return self._conv_forward(x, self.weight, self.bias)
