"""Rain from a C-band weather radar: path attenuation, specific phase, rain rate and a wind fit, all trainable."""
from math import log, pi
from typing import NamedTuple

import torch
from torch.autograd import Function

DB = log(10.0) / 10.0


class ZRTable(NamedTuple):
    a: torch.Tensor  # (regimes,) prefactor
    b: torch.Tensor  # (regimes,) exponent


def default_zr(dtype=torch.float64):
    # stratiform, convective, tropical
    return ZRTable(torch.tensor([200.0, 300.0, 250.0], dtype=dtype), torch.tensor([1.6, 1.4, 1.2], dtype=dtype))


class GateAttenuation(Function):
    """Adds the two-way loss of the gates between the radar and each gate."""

    @staticmethod
    def forward(
        ctx,
        dbz,           # reflectivity, range along `dim`
        coefficient,   # dB/km per (mm^6 m^-3)^exponent, anything that broadcasts
        exponent,      # scalar tensor
        spacing,       # km, float
        dim=-1,
        own_half=False,  # True: half of the gate's own loss counts too
    ):
        powered = torch.exp(DB * exponent * dbz)
        loss = 2.0 * spacing * coefficient * powered
        path = torch.cumsum(loss, dim) - loss
        if own_half:
            path = path + 0.5 * loss
        ctx.save_for_backward(dbz, coefficient, exponent, powered)
        ctx.spacing, ctx.dim, ctx.own_half = spacing, dim, own_half
        return dbz + path

    @staticmethod
    def backward(ctx, grad):
        dbz, coefficient, exponent, powered = ctx.saved_tensors
        beyond = grad.flip(ctx.dim).cumsum(ctx.dim).flip(ctx.dim)
        beyond = beyond - (0.5 if ctx.own_half else 1.0) * grad
        unit = 2.0 * ctx.spacing * beyond * powered
        tilt = unit * coefficient * DB
        return (
            grad + tilt * exponent,
            unit.sum_to_size(coefficient.shape),
            (tilt * dbz).sum_to_size(exponent.shape),
            None, None, None,
        )


class SpecificPhase(Function):
    """Half the weighted least-squares slope of the differential phase in a sliding window of range gates."""

    @staticmethod
    def forward(
        ctx,
        phase,     # degrees, (..., gates)
        quality,   # weights >= 0 of the same shape; two gates or more per window must count
        window,    # gates in a window
        step,      # gates between windows
        spacing,   # km
    ):
        r = torch.arange(window, dtype=phase.dtype, device=phase.device) * spacing
        y, w = phase.unfold(-1, window, step), quality.unfold(-1, window, step)
        mass = w.sum(-1, keepdim=True)
        lever = r - (w * r).sum(-1, keepdim=True) / mass
        rise = y - (w * y).sum(-1, keepdim=True) / mass
        spread = (w * lever * lever).sum(-1, keepdim=True)
        slope = (w * lever * rise).sum(-1, keepdim=True) / spread
        ctx.save_for_backward(w, lever, rise - slope * lever, spread)
        ctx.geometry = phase.shape, window, step
        return 0.5 * slope.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        w, lever, residual, spread = ctx.saved_tensors
        pull = 0.5 * grad.unsqueeze(-1) * lever / spread
        grads = [pull * w, pull * residual]
        return (*(_overlap_add(g, *ctx.geometry) for g in grads), None, None, None)


def _overlap_add(pieces, shape, window, step):
    out = pieces.new_zeros(shape)
    reach = step * (pieces.shape[-2] - 1) + 1
    for k in range(window):
        out[..., k:k + reach:step] += pieces[..., k]
    return out


class RainRate(Function):
    """mm/h by Z = a R^b, with the relation of each gate's regime and a cap against hail."""

    @staticmethod
    def forward(
        ctx,
        dbz,     # any shape
        a,       # (regimes,)
        b,       # (regimes,)
        regime,  # integers, shape of dbz
        cap,     # dBZ, float; values above count as the cap
    ):
        ar, br = a[regime], b[regime]
        power = (DB * dbz.clamp(max=cap) - ar.log()) / br
        rain = power.exp()
        ctx.save_for_backward(dbz, a, b, regime, rain, power)
        ctx.cap = cap
        return rain

    @staticmethod
    def backward(ctx, grad):
        dbz, a, b, regime, rain, power = ctx.saved_tensors
        ar, br = a[regime], b[regime]
        g = grad * rain / br * (dbz < ctx.cap)
        idx = regime.reshape(-1)
        grad_a = torch.zeros_like(a).index_add_(0, idx, (-g / ar).reshape(-1))
        grad_b = torch.zeros_like(b).index_add_(0, idx, (-g * power).reshape(-1))
        return g * DB, grad_a, grad_b, None, None


class FoldedWindCost(Function):
    """Cost of a uniform wind against radial velocities that fold at the Nyquist velocity.

    (V/pi)^2 (1 - cos(pi d / V)), half the squared misfit where nothing folds.
    """

    @staticmethod
    def forward(
        ctx,
        velocity,   # m/s, (scans, rays)
        wind,       # (scans, 3): east, north, up
        nyquist,    # (scans,)
        azimuth,    # rad, (rays,)
        elevation,  # rad, (scans,)
        good,       # bool, (scans, rays), at least one per scan
        reduction="scan",  # "none" (scans, rays), "scan" (scans,), "mean" over all good rays ()
    ):
        ce = elevation.cos().unsqueeze(1)
        beam = torch.stack([azimuth.sin() * ce, azimuth.cos() * ce,
                            elevation.sin().unsqueeze(1).expand(-1, azimuth.numel())], -1)
        miss = torch.where(good, velocity, 0.0) - torch.einsum("src,sc->sr", beam, wind)
        v = nyquist.unsqueeze(1)
        cost = torch.where(good, 2 * (v / pi * torch.sin(0.5 * pi * miss / v)) ** 2, 0.0)
        ctx.save_for_backward(miss, v, beam, good)
        ctx.reduction = reduction
        if reduction == "none":
            return cost
        if reduction == "scan":
            return cost.sum(1) / good.sum(1)
        if reduction == "mean":
            return cost.sum() / good.sum()
        raise ValueError(reduction)

    @staticmethod
    def backward(ctx, grad):
        miss, v, beam, good = ctx.saved_tensors
        if ctx.reduction == "scan":
            grad = (grad / good.sum(1)).unsqueeze(1)
        elif ctx.reduction == "mean":
            grad = grad / good.sum()
        grad = grad * good
        turn = pi * miss / v
        on_miss = grad * v / pi * torch.sin(turn)
        on_nyquist = (4 * grad * v * torch.sin(0.5 * turn) ** 2 / pi ** 2 - on_miss * miss / v).sum(1)
        return on_miss, -torch.einsum("sr,src->sc", on_miss, beam), on_nyquist, None, None, None, None


def rain_field(dbz, regime, zr=None, coefficient=None, exponent=None, spacing=0.25, cap=53.0):
    """dbz (rays, gates) as measured -> rain (rays, gates)."""
    zr = default_zr(dbz.dtype) if zr is None else zr
    coefficient = dbz.new_tensor(1.5e-5) if coefficient is None else coefficient
    exponent = dbz.new_tensor(0.78) if exponent is None else exponent
    clean = GateAttenuation.apply(dbz, coefficient, exponent, spacing, 1, True)
    return RainRate.apply(clean, zr.a, zr.b, regime, cap)


def fit_wind(velocity, good, azimuth, elevation, nyquist, steps=400, lr=0.2):
    wind = torch.zeros(velocity.shape[0], 3, dtype=velocity.dtype, requires_grad=True)
    opt = torch.optim.Adam([wind], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        FoldedWindCost.apply(velocity, wind, nyquist, azimuth, elevation, good, "mean").backward()
        opt.step()
    return wind.detach()
