import math

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

SIGMA = 4.903e-9      # MJ K-4 m-2 day-1
KELVIN = 273.16
RHO_CP = 1.013e-3 * 1.2 * 86400.0   # MJ m-3 K-1, per day
KARMAN = 0.41
CLEAR_MIN = 0.3       # FAO-56 bounds for Rs/Rso
CLEAR_MAX = 1.0


def _sum_to(g: Tensor, shape) -> Tensor:
    extra = g.dim() - len(shape)
    if extra:
        g = g.sum(tuple(range(extra)))
    dims = tuple(i for i, n in enumerate(shape) if n == 1 and g.shape[i] != 1)
    return g.sum(dims, keepdim=True) if dims else g


def clear_sky(ra, elevation):
    return (0.75 + 2e-5 * elevation) * ra


# ---- net radiation ---------------------------------------------------------

@torch.library.custom_op("crop_energy::net_radiation", mutates_args=())
def net_radiation(
    tmax: Tensor,    # degC  (N,)
    tmin: Tensor,    # degC  (N,)
    ea: Tensor,      # kPa   (N,), > 0
    rs: Tensor,      # MJ m-2 day-1 (N,)
    rso: Tensor,     # MJ m-2 day-1 (N,), > 0
    albedo: float,
) -> Tensor:
    t4 = 0.5 * ((tmax + KELVIN) ** 4 + (tmin + KELVIN) ** 4)
    clear = (rs / rso).clamp(CLEAR_MIN, CLEAR_MAX)
    rnl = SIGMA * t4 * (0.34 - 0.14 * ea.sqrt()) * (1.35 * clear - 0.35)
    return (1.0 - albedo) * rs - rnl


@net_radiation.register_fake
def _(tmax, tmin, ea, rs, rso, albedo):
    return torch.empty_like(rs)


def _net_setup(ctx, inputs, output):
    tmax, tmin, ea, rs, rso, albedo = inputs
    ctx.save_for_backward(tmax, tmin, ea, rs, rso)
    ctx.albedo = albedo


def _net_backward(ctx, g):
    tmax, tmin, ea, rs, rso = ctx.saved_tensors
    hi, lo = tmax + KELVIN, tmin + KELVIN
    t4 = 0.5 * (hi**4 + lo**4)
    emis = 0.34 - 0.14 * ea.sqrt()
    ratio = rs / rso
    cloud = 1.35 * ratio.clamp(CLEAR_MIN, CLEAR_MAX) - 0.35
    g_tmax = -g * SIGMA * 2.0 * hi**3 * emis * cloud
    g_tmin = -g * SIGMA * 2.0 * lo**3 * emis * cloud
    g_ea = g * SIGMA * t4 * 0.07 / ea.sqrt() * cloud
    g_ratio = -g * SIGMA * t4 * emis * 1.35
    g_ratio = torch.where(ratio < CLEAR_MAX, g_ratio, torch.zeros_like(g_ratio))
    g_rs = g * (1.0 - ctx.albedo) + g_ratio / rso
    g_rso = -g_ratio * ratio / rso
    return g_tmax, g_tmin, g_ea, g_rs, g_rso, None


net_radiation.register_autograd(_net_backward, setup_context=_net_setup)


# ---- combination equation --------------------------------------------------

class PenmanMonteith(torch.autograd.Function):
    @staticmethod
    def forward(ctx, slope, gamma, avail, vpd, ra, rs):
        num = slope * avail + RHO_CP * vpd / ra
        den = slope + gamma * (1.0 + rs / ra)
        le = num / den
        ctx.save_for_backward(slope, gamma, avail, vpd, ra, rs, den, le)
        return le

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        slope, gamma, avail, vpd, ra, rs, den, le = ctx.saved_tensors
        q = g / den
        grads = (
            q * (avail - le),
            -q * le * (1.0 + rs / ra),
            q * slope,
            q * RHO_CP / ra,
            q * (le * gamma * rs - RHO_CP * vpd) / ra**2,
            -q * le * gamma / ra,
        )
        shapes = [t.shape for t in (slope, gamma, avail, vpd, ra, rs)]
        return tuple(_sum_to(a, s) for a, s in zip(grads, shapes))


# ---- surface layer ---------------------------------------------------------

class StabilityPsi(torch.autograd.Function):
    # z: heights (Z, 1), length: Obukhov length (T,) of either sign, heat: bool
    @staticmethod
    def forward(ctx, z, length, heat):
        zeta = (z / length).clamp(-5.0, 1.0)
        x = (1.0 - 16.0 * zeta.clamp_max(0.0)) ** 0.25
        if heat:
            unstable = 2.0 * torch.log(0.5 * (1.0 + x * x))
        else:
            unstable = (
                2.0 * torch.log(0.5 * (1.0 + x))
                + torch.log(0.5 * (1.0 + x * x))
                - 2.0 * torch.atan(x)
                + 0.5 * math.pi
            )
        ctx.save_for_backward(z, length, x)
        ctx.heat = heat
        return torch.where(zeta < 0, unstable, -5.0 * zeta)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        z, length, x = ctx.saved_tensors
        raw = z / length
        # (1 - phi)/zeta with zeta = (1 - x^4)/16 divided out
        if ctx.heat:
            d = -16.0 / (x * x * (1.0 + x * x))
        else:
            d = -16.0 / (x * (1.0 + x) * (1.0 + x * x))
        d = torch.where(raw < 0, d, torch.full_like(d, -5.0))
        d = d * ((raw >= -5.0) & (raw <= 1.0))
        gz = g * d / length
        return _sum_to(gz, z.shape), _sum_to(-gz * raw, length.shape), None


def aerodynamic_resistance(u, z_u, h, length):
    h = h.reshape(-1, 1)
    z0 = 0.123 * h
    zz = z_u.reshape(-1, 1) - 0.67 * h
    fm = torch.log(zz / z0) - StabilityPsi.apply(zz, length, False)
    fh = torch.log(zz / (0.1 * z0)) - StabilityPsi.apply(zz, length, True)
    return fm * fh / (KARMAN**2 * u)


def daily_et(met, crops, gamma=torch.tensor(0.066)):
    rn = net_radiation(met["tmax"], met["tmin"], met["ea"], met["rs"], met["rso"], 0.23)
    ra = aerodynamic_resistance(met["u"], crops["z"], crops["h"], met["L"])   # (C, T)
    return PenmanMonteith.apply(met["slope"], gamma, rn, met["vpd"], ra, crops["rs"][:, None])
