# Data reduction for the low-turbulence tunnel: hot wires and pitot rakes.
import torch
import torch.nn.functional as F
from torch import Tensor
from typing import NamedTuple, Optional

GAMMA_AIR = 1.4
NEWTON_STEPS = 40


class WireCalibration(NamedTuple):
    offset: Tensor  # A, one per wire            (P,)
    slope: Tensor  # B, one per wire            (P,)
    exponent: Tensor  # n, about 0.45              (P,)
    wire_temp: float = 250.0


def _excess(volts, air_temp, offset, slope, wire_temp):
    power = volts.square() / (wire_temp - air_temp)
    return power, (power - offset) / slope


class KingVelocity(torch.autograd.Function):
    """Inverts King's law  E^2 = (A + B U^n) (Tw - Ta).

    volts is (..., P), air_temp broadcasts against it (a thermocouple per
    record, or one for the whole run); wires below their zero-flow voltage
    read zero.
    """

    @staticmethod
    def forward(
        ctx,
        volts: Tensor,
        air_temp: Tensor,
        offset: Tensor,
        slope: Tensor,
        exponent: Tensor,
        wire_temp: float,
    ) -> Tensor:
        power, x = _excess(volts, air_temp, offset, slope, wire_temp)
        flowing = x > 0
        x = torch.where(flowing, x, torch.ones_like(x))
        speed = torch.where(flowing, x ** (1.0 / exponent), torch.zeros_like(x))
        ctx.save_for_backward(volts, air_temp, slope, exponent, power, x, speed)
        ctx.wire_temp = wire_temp
        return speed

    @staticmethod
    def backward(ctx, grad):
        volts, air_temp, slope, exponent, power, x, speed = ctx.saved_tensors
        # speed is zero on dead wires, so every term below vanishes there
        gx = grad * speed / (exponent * x)
        g_power = gx / slope
        margin = ctx.wire_temp - air_temp
        g_volts = 2.0 * volts * g_power / margin
        g_air = g_power * power / margin
        g_offset = -g_power
        g_slope = -gx * x / slope
        g_exponent = -grad * speed * x.log() / exponent.square()
        return g_volts, g_air, g_offset, g_slope, g_exponent, None


class JorgensenCooling(torch.autograd.Function):
    """Effective cooling velocity seen by each wire of a multi-wire probe.

    velocity (N, 3) in tunnel axes; frames (W, 3, 3), rows are the wire's
    normal, tangent and binormal unit vectors; yaw and pitch are Jorgensen's
    k and h, one per wire, (W,).  Returns (N, W).
    """

    @staticmethod
    def forward(ctx, velocity, frames, yaw, pitch):
        local = torch.einsum("wij,nj->nwi", frames, velocity)
        gains = torch.stack([torch.ones_like(yaw), yaw.square(), pitch.square()], dim=-1)
        ueff = (gains * local.square()).sum(-1).sqrt()
        ctx.save_for_backward(velocity, frames, yaw, pitch, local, gains, ueff)
        return ueff

    @staticmethod
    def backward(ctx, grad):
        velocity, frames, yaw, pitch, local, gains, ueff = ctx.saved_tensors
        h = grad / ueff.clamp(min=1e-12)
        g_local = h[..., None] * gains * local
        g_velocity = g_frames = g_yaw = g_pitch = None
        if ctx.needs_input_grad[0]:
            g_velocity = torch.einsum("wij,nwj->ni", frames, g_local)
        if ctx.needs_input_grad[1]:
            g_frames = torch.einsum("nwi,nj->wij", g_local, velocity)
        if ctx.needs_input_grad[2]:
            g_yaw = yaw * (h * local[..., 1].square()).sum(0)
        if ctx.needs_input_grad[3]:
            g_pitch = pitch * (h * local[..., 2].square()).sum(0)
        return g_velocity, g_frames, g_yaw, g_pitch


def _log_rayleigh(m, gamma):
    a = gamma / (gamma - 1.0) * torch.log(0.5 * (gamma + 1.0) * m.square())
    b = torch.log((gamma + 1.0) / (2.0 * gamma * m.square() - (gamma - 1.0))) / (gamma - 1.0)
    return a + b


def _log_rayleigh_slope(m, gamma):
    inner = 2.0 * gamma * m.square() - (gamma - 1.0)
    return 2.0 * gamma / (gamma - 1.0) * (1.0 / m - 2.0 * m / inner)


class PitotMach(torch.autograd.Function):
    """Mach number from pitot over static pressure (any shape, ratio > 1).

    Isentropic up to sonic speed; the Rayleigh pitot formula, with its
    detached shock, is solved by Newton above it.
    """

    @staticmethod
    def forward(ctx, ratio, gamma=GAMMA_AIR):
        critical = (0.5 * (gamma + 1.0)) ** (gamma / (gamma - 1.0))
        still = ratio <= 1.0
        safe = torch.where(still, torch.full_like(ratio, critical), ratio)
        slow = (2.0 / (gamma - 1.0) * (safe ** ((gamma - 1.0) / gamma) - 1.0)).sqrt()
        target = safe.clamp(min=critical).log()
        fast = (safe / critical).clamp(min=1.0).sqrt()
        for _ in range(NEWTON_STEPS):
            step = (_log_rayleigh(fast, gamma) - target) / _log_rayleigh_slope(fast, gamma)
            fast = (fast - step).clamp(min=1.0)
        mach = torch.where(safe > critical, fast, slow)
        mach = torch.where(still, torch.zeros_like(mach), mach)
        ctx.save_for_backward(ratio, mach)
        ctx.gamma = gamma
        return mach

    @staticmethod
    def backward(ctx, grad):
        ratio, mach = ctx.saved_tensors
        gamma = ctx.gamma
        sub = gamma * mach / (1.0 + 0.5 * (gamma - 1.0) * mach.square())
        sup = _log_rayleigh_slope(mach.clamp(min=1.0), gamma)
        dlog = torch.where(mach > 1.0, sup, sub)
        flowing = mach > 0
        dlog = torch.where(flowing, dlog, torch.ones_like(dlog))
        return torch.where(flowing, grad / (ratio * dlog), torch.zeros_like(grad)), None


def hot_wire_speed(volts, air_temp, cal: WireCalibration):
    return KingVelocity.apply(volts, air_temp, cal.offset, cal.slope, cal.exponent, cal.wire_temp)


def probe_frames(angles):
    """Wire frames of a slanted probe; angles (W, 2): roll about x, slant about z, radians."""
    r, s = angles.unbind(-1)
    one, zero = torch.ones_like(r), torch.zeros_like(r)
    roll = torch.stack([one, zero, zero, zero, r.cos(), -r.sin(), zero, r.sin(), r.cos()], -1)
    slant = torch.stack([s.cos(), -s.sin(), zero, s.sin(), s.cos(), zero, zero, zero, one], -1)
    return slant.view(-1, 3, 3) @ roll.view(-1, 3, 3)


def recover_velocity(
    volts,
    air_temp,
    cal,
    angles,
    yaw,
    pitch,
    guess: Optional[Tensor] = None,
    iterations: int = 200,
    lr: float = 0.05,
):
    """Least-squares velocity of each record from the wires' cooling velocities."""
    measured = hot_wire_speed(volts, air_temp, cal).detach()
    frames = probe_frames(angles)
    if guess is None:
        guess = F.pad(measured.mean(-1, keepdim=True), (0, 2))
    velocity = guess.clone().requires_grad_(True)
    opt = torch.optim.Adam([velocity], lr=lr)
    for _ in range(iterations):
        opt.zero_grad()
        loss = (JorgensenCooling.apply(velocity, frames, yaw, pitch) - measured).square().mean()
        loss.backward()
        opt.step()
    return velocity.detach()


def rake_profile(pitot, static, gamma=GAMMA_AIR):
    """pitot (R, H) pressures of a rake, static (R, 1) wall tapping -> Mach (R, H)."""
    return PitotMach.apply(pitot / static, gamma)
