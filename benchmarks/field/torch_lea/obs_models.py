"""Forward models of catalogue observables (sky maps, dust, aftershocks, pulsars)."""
import math

import numpy as np
import torch
from torch.autograd import Function

_SQRT2 = math.sqrt(2.0)
_DM_CONST = 4.148808e3  # s MHz^2 cm^3 / pc


def _auxiliary_angle(lat, n_iter=40):
    theta = lat.clone()
    target = math.pi * torch.sin(lat)
    for _ in range(n_iter):
        f = 2 * theta + torch.sin(2 * theta) - target
        theta = theta - f / (4 * torch.cos(theta).square())
    return theta


class MollweideXY(Function):
    """(lon, lat) in radians -> (x, y). |lat| up to 89 degrees; lon wraps around lon0.

    lon and lat have the same shape.
    """

    @staticmethod
    def forward(ctx, lon, lat, lon0=0.0, radius=1.0):
        theta = _auxiliary_angle(lat)
        dlon = torch.remainder(lon - lon0 + math.pi, 2 * math.pi) - math.pi
        ctx.save_for_backward(dlon, lat, theta)
        ctx.radius = radius
        x = radius * 2 * _SQRT2 / math.pi * dlon * torch.cos(theta)
        y = radius * _SQRT2 * torch.sin(theta)
        return x, y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gx, gy):
        dlon, lat, theta = ctx.saved_tensors
        k = ctx.radius * 2 * _SQRT2 / math.pi
        c, s = torch.cos(theta), torch.sin(theta)
        g_theta = ctx.radius * _SQRT2 * c * gy - k * dlon * s * gx
        # 2 theta + sin 2 theta = pi sin lat
        g_lat = g_theta * math.pi * torch.cos(lat) / (4 * c * c)
        return k * c * gx, g_lat, None, None


def ccm_coefficients(wavelength_um):
    """a(x), b(x) of Cardelli, Clayton & Mathis (1989), 0.303 to 3.33 micron."""
    x = 1.0 / np.asarray(wavelength_um, dtype=np.float64)
    if x.min() < 0.3 or x.max() > 3.3:
        raise ValueError("wavelength outside of the tabulated range")
    y = x - 1.82
    pa = [0.32999, -0.77530, 0.01979, 0.72085, -0.02427, -0.50447, 0.17699, 1.0]
    pb = [-2.09002, 5.30260, -0.62251, -5.38434, 1.07233, 2.28305, 1.41338, 0.0]
    ir = x < 1.1
    a = np.where(ir, 0.574 * x**1.61, np.polyval(pa, y))
    b = np.where(ir, -0.527 * x**1.61, np.polyval(pb, y))
    return a, b


class DustScreen(Function):
    """Apply (or with inverse=True take off) a dust screen.

    flux (..., n), av (...), rv scalar or (...); a, b (n,) from ccm_coefficients.
    """

    @staticmethod
    def forward(ctx, flux, av, rv, a, b, inverse=False):
        sign = 1.0 if inverse else -1.0
        mag = av.unsqueeze(-1) * (a + b / rv.unsqueeze(-1))
        factor = torch.exp(sign * 0.4 * math.log(10.0) * mag)
        ctx.save_for_backward(flux, av, rv, a, b)
        ctx.sign = sign
        return flux * factor

    @staticmethod
    def backward(ctx, g):
        flux, av, rv, a, b = ctx.saved_tensors
        c = 0.4 * math.log(10.0)
        av_, rv_ = av.unsqueeze(-1), rv.unsqueeze(-1)
        law = a + b / rv_
        factor = torch.exp(ctx.sign * c * av_ * law)
        g_flux = g * factor
        g_ext = c * g_flux * flux
        g_av = ctx.sign * (g_ext * law).sum(-1)
        g_rv = (g_ext * av_ * b / rv_.square()).sum(-1).sum_to_size(rv.shape)
        return g_flux, g_av, g_rv, None, None, None


def dust_screen(flux, wavelength_um, av, rv=None, inverse=False):
    a, b = (torch.as_tensor(t, dtype=flux.dtype) for t in ccm_coefficients(wavelength_um))
    if rv is None:
        rv = flux.new_tensor(3.1)
    return DustScreen.apply(flux, av, rv, a, b, inverse)


def _phi(s):
    # expm1(s) / s and its derivative
    small = s.abs() < 0.1
    t = torch.where(small, s, 0.0)
    p = torch.zeros_like(s)
    d = torch.zeros_like(s)
    for k in range(10, -1, -1):
        p = p * t + 1.0 / math.factorial(k + 1)
        d = d * t + (k + 1.0) / math.factorial(k + 2)
    r = torch.where(small, 1.0, s)
    big = torch.expm1(r) / r
    return torch.where(small, p, big), torch.where(small, d, (torch.exp(r) - big) / r)


class OmoriUtsuCount(Function):
    """Expected aftershocks in [t1, t2]: K * int (t + c)^-p dt. Any p, one included.

    All five broadcast; t1, t2 >= 0, c > 0.
    """

    @staticmethod
    def forward(t1, t2, K, c, p):
        l1, l2 = torch.log(t1 + c), torch.log(t2 + c)
        q = 1.0 - p
        phi, _ = _phi(q * (l2 - l1))
        return K * torch.exp(q * l1) * (l2 - l1) * phi

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        t1, t2, K, c, p = ctx.saved_tensors
        l1, l2 = torch.log(t1 + c), torch.log(t2 + c)
        dl, q = l2 - l1, 1.0 - p
        phi, dphi = _phi(q * dl)
        base = torch.exp(q * l1) * dl
        r1, r2 = torch.exp(-p * l1), torch.exp(-p * l2)
        gk = g * K
        grads = (
            -gk * r1,
            gk * r2,
            g * base * phi,
            gk * (r2 - r1),
            -gk * base * (l1 * phi + dl * dphi),
        )
        return tuple(v.sum_to_size(x.shape) for v, x in zip(grads, (t1, t2, K, c, p)))


class PulseDispersion(Function):
    """Arrival delay [s] against f_ref (None: infinite frequency) and in-channel smearing [ms].

    dm (...,), freq (n,) in MHz; returns two (..., n). bandwidth is the channel width in MHz.
    """

    @staticmethod
    def forward(ctx, dm, freq, bandwidth, f_ref=None):
        inv2 = freq.pow(-2)
        if f_ref is not None:
            inv2 = inv2 - f_ref**-2
        dm_ = dm.unsqueeze(-1)
        ctx.save_for_backward(dm, freq)
        ctx.bandwidth, ctx.f_ref = bandwidth, f_ref
        return _DM_CONST * dm_ * inv2, 2e3 * _DM_CONST * bandwidth * dm_ * freq.pow(-3)

    @staticmethod
    def backward(ctx, g_delay, g_smear):
        dm, freq = ctx.saved_tensors
        inv2 = freq.pow(-2)
        if ctx.f_ref is not None:
            inv2 = inv2 - ctx.f_ref**-2
        inv3 = freq.pow(-3)
        smear = 2e3 * ctx.bandwidth * inv3
        g_dm = _DM_CONST * (g_delay * inv2 + g_smear * smear).sum(-1)
        g_freq = -2 * _DM_CONST * (g_delay * dm.unsqueeze(-1) * inv3)
        return g_dm, g_freq.sum_to_size(freq.shape), None, None


mollweide = MollweideXY.apply
omori_count = OmoriUtsuCount.apply


def dispersion(dm, freq, bandwidth=0.5, f_ref=None):
    return PulseDispersion.apply(dm, freq, bandwidth, f_ref)


def poisson_aftershock_loss(counts, edges, K, c, p):
    rate = omori_count(edges[:-1], edges[1:], K, c, p)
    return (rate - counts * rate.log()).mean()
