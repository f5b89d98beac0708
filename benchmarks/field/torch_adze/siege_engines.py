"""Reconstruction bench for counterweight engines.

Supports the castle-park programme: from the dimensions of a rebuilt trebuchet
the bench simulates the swing of the beam, turns the release into a throw, and
describes how tightly each crew groups its stones on the target bank.

The swing integrates the rigid beam with a fixed-step symplectic scheme; its
adjoint runs back over the stored trajectory, so that beam dimensions can be
fitted to high-speed film of the swing.

Angles in radians, SI units throughout.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Optional

import torch
from torch import nn

G = 9.80665
BEAM_INERTIA = 850.0
COCKED_ANGLE = 2.25
DEFAULT_STEP = 0.02
DEFAULT_STEPS = 60


class EngineSpec(NamedTuple):
    """Dimensions of one engine.

    counterweight, stone : kg
    short_arm, long_arm : m, from the axle
    axle_height : m above the field
    """

    counterweight: float = 6000.0
    stone: float = 90.0
    short_arm: float = 1.6
    long_arm: float = 6.2
    axle_height: float = 5.0


WARWICK = EngineSpec()
LITTLE_ENGINE = EngineSpec(900.0, 12.0, 0.7, 2.9, 2.1)


def beam_moment(counterweight, stone, short_arm, long_arm):
    """First moment that drives the swing."""
    return G * (counterweight * short_arm - stone * long_arm)


def beam_inertia(counterweight, stone, short_arm, long_arm):
    return BEAM_INERTIA + counterweight * short_arm**2 + stone * long_arm**2


def unbroadcast(grad, shape):
    """Sum ``grad`` down to ``shape``."""
    while grad.dim() > len(shape):
        grad = grad.sum(0)
    for axis, size in enumerate(shape):
        if size == 1 and grad.shape[axis] != 1:
            grad = grad.sum(axis, keepdim=True)
    return grad


class BeamSwing(torch.autograd.Function):
    """Swing of the beam from rest.

    Arguments ``theta0``, ``counterweight`` and ``stone`` are (B,) tensors,
    ``short_arm`` and ``long_arm`` scalars shared by the batch.  ``damping`` is
    the axle friction (N m s), ``dt`` and ``steps`` the integration grid.

    Returns the pair of trajectories ``(theta, omega)``, each (B, steps + 1),
    the start included.
    """

    @staticmethod
    def forward(ctx, theta0, counterweight, stone, short_arm, long_arm, damping, dt, steps):
        moment = beam_moment(counterweight, stone, short_arm, long_arm)
        inertia = beam_inertia(counterweight, stone, short_arm, long_arm)
        theta = theta0
        omega = torch.zeros_like(theta0)
        thetas, omegas = [theta], [omega]
        for _ in range(steps):
            accel = (moment * torch.sin(theta) - damping * omega) / inertia
            omega = omega + dt * accel
            theta = theta + dt * omega
            thetas.append(theta)
            omegas.append(omega)
        thetas = torch.stack(thetas, -1)
        omegas = torch.stack(omegas, -1)
        ctx.save_for_backward(
            thetas, omegas, counterweight, stone, short_arm, long_arm, moment, inertia
        )
        ctx.damping, ctx.dt, ctx.steps = damping, dt, steps
        return thetas, omegas

    @staticmethod
    def backward(ctx, grad_theta, grad_omega):
        thetas, omegas, cw, stone, short, long, moment, inertia = ctx.saved_tensors
        c, dt = ctx.damping, ctx.dt
        a_theta = grad_theta[..., -1]
        a_omega = grad_omega[..., -1]
        a_moment = torch.zeros_like(a_theta)
        a_inertia = torch.zeros_like(a_theta)
        for k in range(ctx.steps - 1, -1, -1):
            th, om = thetas[..., k], omegas[..., k]
            a_omega = a_omega + dt * a_theta
            a_accel = dt * a_omega
            accel = (moment * torch.sin(th) - c * om) / inertia
            a_moment = a_moment + a_accel * torch.sin(th) / inertia
            a_inertia = a_inertia - a_accel * accel / inertia
            a_theta = a_theta + a_accel * moment * torch.cos(th) / inertia
            a_omega = a_omega - a_accel * c / inertia
            a_theta = a_theta + grad_theta[..., k]
        g_cw = a_moment * G * short + a_inertia * short**2
        g_stone = -a_moment * G * long + a_inertia * long**2
        g_short = (a_moment * G * cw + a_inertia * 2.0 * cw * short).sum()
        g_long = (-a_moment * G * stone + a_inertia * 2.0 * stone * long).sum()
        return a_theta, g_cw, g_stone, g_short, g_long, None, None, None


class ThrowRange(torch.autograd.Function):
    """Horizontal reach of a stone released above (or below) the target level.

    speed, angle, drop -> reach, all broadcastable against each other.

    ``angle`` is the elevation at release and ``drop`` the height of the
    release over the target, negative when the target stands higher.  A throw
    that never rises to the target has reach zero and passes no gradient.
    """

    @staticmethod
    def forward(ctx, speed, angle, drop):
        up = speed * torch.sin(angle)
        along = speed * torch.cos(angle)
        disc = up**2 + 2.0 * G * drop
        arrives = disc > 0
        root = torch.sqrt(torch.where(arrives, disc, torch.ones_like(disc)))
        time = torch.where(arrives, (up + root) / G, torch.zeros_like(root))
        ctx.save_for_backward(speed, angle, up, along, root, time, arrives)
        ctx.drop_shape = drop.shape
        return along * time

    @staticmethod
    def backward(ctx, grad):
        speed, angle, up, along, root, time, arrives = ctx.saved_tensors
        grad = grad * arrives
        d_along = grad * time
        d_up = grad * along * (1.0 + up / root) / G
        d_drop = grad * along / root
        g_speed = d_up * torch.sin(angle) + d_along * torch.cos(angle)
        g_angle = d_up * along - d_along * up
        return (
            unbroadcast(g_speed, speed.shape),
            unbroadcast(g_angle, angle.shape),
            unbroadcast(d_drop, ctx.drop_shape),
        )


class CrewDispersion(torch.autograd.Function):
    """Weighted variance of the impact coordinate for every crew."""

    @staticmethod
    def forward(ctx, impact, weight, crew, n_crews):
        # impact, weight: (N,); crew: (N,) integer; a crew without stones gives 0
        total = impact.new_zeros(n_crews).index_add(0, crew, weight)
        total = torch.where(total > 0, total, torch.ones_like(total))
        centre = impact.new_zeros(n_crews).index_add(0, crew, weight * impact) / total
        miss = impact - centre[crew]
        var = impact.new_zeros(n_crews).index_add(0, crew, weight * miss**2) / total
        ctx.save_for_backward(miss, weight, crew, total, var)
        return var

    @staticmethod
    def backward(ctx, grad):
        miss, weight, crew, total, var = ctx.saved_tensors
        per_stone = (grad / total)[crew]
        g_impact = per_stone * 2.0 * miss
        g_weight = per_stone * (miss**2 - var[crew])
        return g_impact, g_weight, None, None


def grouping(impact, crew, n_crews, weight: Optional[torch.Tensor] = None):
    """Standard deviation of each crew; stones weigh equally unless told.

    The marshal's sheets give ``weight`` as the confidence (0-1) with which a
    crater could be told from older ones.
    """
    if weight is None:
        weight = torch.ones_like(impact)
    var = CrewDispersion.apply(impact, weight, crew, n_crews)
    return torch.sqrt(var + 1e-9)


class Trebuchet(nn.Module):
    """One engine with fitted arms.

    ``forward`` returns the reach for each combination of counterweight and
    stone; the release is a soft choice over the swing, weighted towards the
    instant at which the sling angle meets ``release_angle``.
    """

    def __init__(self, spec: EngineSpec = WARWICK, damping=120.0, release_angle=0.7):
        super().__init__()
        self.spec = spec
        self.short_arm = nn.Parameter(torch.tensor(float(spec.short_arm)))
        self.long_arm = nn.Parameter(torch.tensor(float(spec.long_arm)))
        self.release_angle = nn.Parameter(torch.tensor(float(release_angle)))
        self.damping = damping

    def swing(self, counterweight, stone, steps=DEFAULT_STEPS, dt=DEFAULT_STEP):
        theta0 = torch.full_like(counterweight, math.pi - COCKED_ANGLE)
        return BeamSwing.apply(
            theta0, counterweight, stone, self.short_arm, self.long_arm,
            self.damping, dt, steps,
        )

    def forward(self, counterweight, stone):
        theta, omega = self.swing(counterweight, stone)
        lag = (theta - math.pi / 2 - self.release_angle) / 0.1
        choice = torch.softmax(-lag**2, dim=-1)
        tip_speed = (choice * omega).sum(-1) * self.long_arm
        drop = self.spec.axle_height + self.long_arm * torch.sin(self.release_angle)
        return ThrowRange.apply(tip_speed, self.release_angle, drop)

    def film_misfit(self, counterweight, stone, filmed_omega):
        """Mean square misfit to beam speeds read off the film, (B, steps + 1)."""
        _, omega = self.swing(counterweight, stone, steps=filmed_omega.shape[-1] - 1)
        return ((omega - filmed_omega) ** 2).mean()


def demo():
    engine = Trebuchet()
    cw = torch.tensor([5500.0, 6000.0, 6500.0])
    st = torch.tensor([80.0, 90.0, 110.0])
    reach = engine(cw, st)
    reach.sum().backward()
    print("reach", reach.detach().numpy(), "d long arm", engine.long_arm.grad.item())
    crew = torch.tensor([0, 0, 1, 1, 1, 3])
    impact = torch.tensor([150.0, 156.0, 160.0, 148.0, 151.0, 149.0])
    print("grouping", grouping(impact, crew, 4))


if __name__ == "__main__":
    demo()
