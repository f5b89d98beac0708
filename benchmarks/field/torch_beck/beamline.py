import torch
from torch import nn


def _cs(k, length):
    """cos-like and sin-like solutions of u'' + k u = 0, for either sign of k."""
    root = k.abs().sqrt()
    phase = root * length
    safe = torch.where(root > 0, root, torch.ones_like(root))
    c = torch.where(k >= 0, torch.cos(phase), torch.cosh(phase))
    s = torch.where(k > 0, torch.sin(phase) / safe, torch.sinh(phase) / safe)
    return c, torch.where(root > 0, s, length.expand_as(s))


def _ds_dk(k, length, c, s):
    small = (k * length**2).abs() < 1e-3
    exact = (length * c - s) / (2 * torch.where(small, torch.ones_like(k), k))
    series = -(length**3) / 6 + k * length**5 / 60 - k**2 * length**7 / 1680
    return torch.where(small, series, exact)


def _plane(u, up, k, length):
    c, s = _cs(k, length)
    return c * u + s * up, c * up - k * s * u


def _plane_vjp(gu, gp, u, up, k, length):
    c, s = _cs(k, length)
    dc, ds = -0.5 * length * s, _ds_dk(k, length, c, s)
    g_k = gu * (dc * u + ds * up) + gp * (dc * up - (s + k * ds) * u)
    g_l = gu * (-k * s * u + c * up) - gp * (k * s * up + k * c * u)
    return c * gu - k * s * gp, s * gu + c * gp, g_k, g_l


class QuadTransport(torch.autograd.Function):
    @staticmethod
    def forward(beam, k1, length, delta):
        x, xp, y, yp = beam.unbind(-1)
        k = (k1 / (1 + delta)).expand_as(x)
        x, xp = _plane(x, xp, k, length)
        y, yp = _plane(y, yp, -k, length)
        return torch.stack([x, xp, y, yp], -1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        beam, k1, length, delta = ctx.saved_tensors
        x, xp, y, yp = beam.unbind(-1)
        k = (k1 / (1 + delta)).expand_as(x)
        gx, gxp, gy, gyp = grad.unbind(-1)
        gx, gxp, kx, lx = _plane_vjp(gx, gxp, x, xp, k, length)
        gy, gyp, ky, ly = _plane_vjp(gy, gyp, y, yp, -k, length)
        g_k = kx - ky
        g_delta = -g_k * k / (1 + delta)
        return (
            torch.stack([gx, gxp, gy, gyp], -1),
            g_k.sum_to_size(k1.shape),
            (lx + ly).sum_to_size(length.shape),
            g_delta.sum_to_size(delta.shape),
        )


class Quadrupole(nn.Module):
    def __init__(self, length, k1):
        super().__init__()
        self.length = nn.Parameter(torch.tensor(float(length)))
        self.k1 = nn.Parameter(torch.tensor([float(k1)]))

    def forward(self, beam, delta=None):
        if delta is None:
            delta = beam.new_zeros(beam.shape[:-1])
        return QuadTransport.apply(beam, self.k1, self.length, delta)


def fodo_cell(length=0.3, k1=1.2, cells=1):
    return nn.Sequential(*(Quadrupole(length, s * k1) for _ in range(cells) for s in (1, -1)))
