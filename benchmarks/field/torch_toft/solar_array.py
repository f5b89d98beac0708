"""Differentiable pieces of a PV yield model: transposition, module temperature, single-diode I-V curve."""
from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

COS_ZENITH_FLOOR = 0.01745
BOLTZMANN_OVER_CHARGE = 8.617333262e-5


class DiodeParams(NamedTuple):
    photocurrent: Tensor
    saturation: Tensor
    r_series: Tensor
    r_shunt: Tensor
    nNsVth: Tensor


def _fit(grad: Optional[Tensor], like: Tensor) -> Optional[Tensor]:
    return None if grad is None else grad.sum_to_size(like.shape)


def _start(v: Tensor, il: Tensor, i0: Tensor, rs: Tensor, a: Tensor) -> Tensor:
    """Upper bound of the current: I <= I_L, and V + I Rs <= a log1p((I_L + V/Rs) / I_0)."""
    has_rs = rs > 0
    safe = torch.where(has_rs, rs, torch.ones_like(rs))
    capped = (a * torch.log1p((il + v / safe) / i0) - v) / safe
    return torch.where(has_rs, torch.minimum(il, capped), il)


class SingleDiodeCurrent(Function):
    r"""Terminal current of the single-diode equivalent circuit.

    Solves, element by element,

    .. math::
        I = I_L - I_0\left[\exp\left(\frac{V + I R_s}{a}\right) - 1\right] - \frac{V + I R_s}{R_{sh}}

    Args:
        voltage: terminal voltage, V >= 0.
        photocurrent, saturation, r_series, r_shunt, a: the five parameters. ``r_series >= 0``, all others > 0.
            All six inputs broadcast against each other.
        iterations: Newton steps. The residual is decreasing and concave in I, so from a start right of the root the
            iteration is monotone.

    The backward pass uses the implicit function theorem at the solution.
    """

    @staticmethod
    def forward(ctx, voltage, photocurrent, saturation, r_series, r_shunt, a, iterations=80):
        v, il, i0, rs, rsh, a_ = torch.broadcast_tensors(voltage, photocurrent, saturation, r_series, r_shunt, a)
        current = _start(v, il, i0, rs, a_)
        for _ in range(iterations):
            vd = v + current * rs
            ex = torch.exp(vd / a_)
            residual = il - i0 * (ex - 1.0) - vd / rsh - current
            slope = -i0 * ex * rs / a_ - rs / rsh - 1.0
            current = current - residual / slope
        ctx.save_for_backward(voltage, photocurrent, saturation, r_series, r_shunt, a, current)
        return current

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_current):
        voltage, photocurrent, saturation, r_series, r_shunt, a, current = ctx.saved_tensors
        vd = voltage + current * r_series
        ex = torch.exp(vd / a)
        g_diode = saturation * ex / a + 1.0 / r_shunt  # conductance of the junction and the shunt
        lam = grad_current / (1.0 + g_diode * r_series)
        return (
            _fit(-lam * g_diode, voltage),
            _fit(lam, photocurrent),
            _fit(-lam * torch.expm1(vd / a), saturation),
            _fit(-lam * g_diode * current, r_series),
            _fit(lam * vd / r_shunt**2, r_shunt),
            _fit(lam * saturation * ex * vd / a**2, a),
            None,
        )


class HayDaviesIrradiance(Function):
    """Plane-of-array irradiance after Hay & Davies (beam + circumsolar + isotropic sky + ground).

    dni, dhi, ghi, cos_zenith: (T, 1) or any shape broadcastable with cos_aoi (T, P); cos_aoi < 0 means that the sun
    is behind the plane. tilt: (P,) in radians. extra: extraterrestrial normal irradiance, a float.
    """

    @staticmethod
    def forward(ctx, dni, dhi, ghi, cos_aoi, cos_zenith, tilt, extra=1361.0, albedo=0.2):
        front = cos_aoi.clamp(min=0.0)
        floor = cos_zenith.clamp(min=COS_ZENITH_FLOOR)
        ratio = front / floor
        aniso = dni / extra
        sky = 0.5 * (1.0 + tilt.cos())
        ground = 0.5 * albedo * (1.0 - tilt.cos())
        ctx.save_for_backward(dni, dhi, ghi, cos_aoi, cos_zenith, tilt)
        ctx.extra, ctx.albedo = extra, albedo
        return dni * front + dhi * (aniso * ratio + (1.0 - aniso) * sky) + ghi * ground

    @staticmethod
    def backward(ctx, g):
        dni, dhi, ghi, cos_aoi, cos_zenith, tilt = ctx.saved_tensors
        lit = (cos_aoi > 0).to(g.dtype)
        high = (cos_zenith > COS_ZENITH_FLOOR).to(g.dtype)
        front = cos_aoi * lit
        floor = cos_zenith.clamp(min=COS_ZENITH_FLOOR)
        ratio = front / floor
        aniso = dni / ctx.extra
        sky = 0.5 * (1.0 + tilt.cos())

        g_dni = g * (front + dhi * (ratio - sky) / ctx.extra)
        g_dhi = g * (aniso * ratio + (1.0 - aniso) * sky)
        g_ghi = g * 0.5 * ctx.albedo * (1.0 - tilt.cos())
        g_ratio = g * dhi * aniso
        g_aoi = g * dni * lit + g_ratio / floor
        g_zen = -g_ratio * ratio / floor * high
        g_tilt = 0.5 * g * tilt.sin() * (ctx.albedo * ghi - dhi * (1.0 - aniso))
        return (
            _fit(g_dni, dni), _fit(g_dhi, dhi), _fit(g_ghi, ghi),
            _fit(g_aoi, cos_aoi), _fit(g_zen, cos_zenith), _fit(g_tilt, tilt), None, None,
        )


class FaimanCellTemperature(Function):

    @staticmethod
    def forward(irradiance, ambient, wind, u0, u1, mounting):
        loss = u0[mounting] + u1[mounting] * wind
        return ambient + irradiance / loss

    @staticmethod
    def setup_context(ctx, inputs, output):
        irradiance, ambient, wind, u0, u1, mounting = inputs
        ctx.save_for_backward(irradiance, ambient, wind, u0, u1, mounting)

    @staticmethod
    def backward(ctx, g):
        irradiance, ambient, wind, u0, u1, mounting = ctx.saved_tensors
        k1 = u1[mounting]
        loss = u0[mounting] + k1 * wind
        g_loss = -g * irradiance / loss**2
        rows = mounting.shape[0]
        g_u0 = torch.zeros_like(u0).index_add_(0, mounting, g_loss.reshape(-1, rows).sum(0))
        g_u1 = torch.zeros_like(u1).index_add_(0, mounting, (g_loss * wind).reshape(-1, rows).sum(0))
        return _fit(g / loss, irradiance), _fit(g, ambient), _fit(g_loss * k1, wind), g_u0, g_u1, None


class ArrayModel(nn.Module):
    """Strings of one array; `mounting` holds an index into the table of heat-loss factors for each string."""

    def __init__(self, tilt, mounting, n_mountings=3, cells=60):
        super().__init__()
        self.tilt = nn.Parameter(torch.as_tensor(tilt))
        self.register_buffer("mounting", torch.as_tensor(mounting))
        self.u0 = nn.Parameter(torch.full((n_mountings,), 25.0))
        self.u1 = nn.Parameter(torch.full((n_mountings,), 6.84))
        self.log_i0 = nn.Parameter(torch.tensor(math.log(1e-9)))
        self.cells = cells

    def forward(self, dni, dhi, ghi, cos_aoi, cos_zenith, ambient, wind, voltage):
        poa = HayDaviesIrradiance.apply(dni, dhi, ghi, cos_aoi, cos_zenith, self.tilt)
        temp = FaimanCellTemperature.apply(poa, ambient, wind, self.u0, self.u1, self.mounting)
        a = 1.1 * self.cells * BOLTZMANN_OVER_CHARGE * (temp + 273.15)
        one = torch.ones_like(poa)
        p = DiodeParams(poa * 0.009, self.log_i0.exp() * one, 0.3 * one, 300.0 * one, a)
        return SingleDiodeCurrent.apply(voltage, *p)
