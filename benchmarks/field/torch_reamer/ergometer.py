"""Indoor rowing machine: flywheel, handle and monitor.

The monitor knows the flywheel's speed only; between pulls it watches the wheel slow down and fits the drag factor. The trainers fit
athletes' force curves through this model, so the derivatives have to reach force and handle position.
"""
import math
from typing import NamedTuple

import torch

RPM = 2 * math.pi / 60


class Machine(NamedTuple):
    inertia: float = 0.1001     # kg m^2
    step: float = 0.01          # s


class FlywheelSpin(torch.autograd.Function):
    """Speed of the wheel, explicit Euler.

    The clutch passes only positive torque, air drag brakes with k * w**2, and the wheel never turns backwards.

    Shapes:
        torque  (samples, rowers)   N m at the sprocket
        drag    (rowers,) or ()     k, N m s^2
        start   (rowers,)           rad/s
        result  (samples, rowers)   rad/s after each sample
    """

    @staticmethod
    def forward(torque, drag, start, machine):
        ratio = machine.step / machine.inertia
        w, out = start, []
        for push in torque.clamp(min=0):
            w = torch.relu(w + ratio * (push - drag * w * w))
            out.append(w)
        return torch.stack(out)

    @staticmethod
    def setup_context(ctx, inputs, output):
        torque, drag, start, ctx.machine = inputs
        ctx.save_for_backward(torque, drag, start, output)

    @staticmethod
    def backward(ctx, grad):
        torque, drag, start, speed = ctx.saved_tensors
        ratio = ctx.machine.step / ctx.machine.inertia
        g_torque = torch.zeros_like(torque)
        g_drag = torch.zeros_like(start)
        lam = torch.zeros_like(start)
        for t in range(len(torque) - 1, -1, -1):
            was = speed[t - 1] if t else start
            lam = (lam + grad[t]) * (speed[t] > 0)
            g_torque[t] = ratio * lam * (torque[t] > 0)
            g_drag = g_drag - ratio * lam * was * was
            lam = lam * (1 - 2 * ratio * drag * was)
        return g_torque, g_drag.sum_to_size(drag.shape), lam, None


class StrokeWork(torch.autograd.Function):
    """Work (J) and peak force (N) of each stroke.

    force, handle: (..., samples), handle is the distance from the flywheel in metres. Work is done on the pull only: steps in which
    the handle goes back towards the wheel (the recovery) count nothing.
    """

    @staticmethod
    def forward(ctx, force, handle):
        travel = handle.diff(dim=-1).clamp(min=0)
        mean_force = (force[..., 1:] + force[..., :-1]) / 2
        peak, where = force.max(dim=-1, keepdim=True)
        ctx.save_for_backward(travel, mean_force, where)
        return (mean_force * travel).sum(-1), peak.squeeze(-1)

    @staticmethod
    def backward(ctx, g_work, g_peak):
        travel, mean_force, where = ctx.saved_tensors
        g = g_work.unsqueeze(-1)
        pad = torch.nn.functional.pad

        g_pair = g * travel / 2
        g_force = pad(g_pair, (0, 1)) + pad(g_pair, (1, 0))
        g_force = g_force.scatter_add(-1, where, g_peak.unsqueeze(-1))

        g_step = g * mean_force
        g_handle = pad(g_step, (1, 0)) - pad(g_step, (0, 1))
        return g_force, g_handle


class DragFactorFit(torch.autograd.Function):
    """Drag factor (1e-6 N m s^2) from the wheel's slowing down.

    While it coasts, 1/w grows linearly, and its slope times the inertia is k. A least squares line is put through the coasting
    samples of each stroke.

    speed: (strokes, samples), in 'rad/s' or 'rpm' according to `unit`
    times: (samples,) or (strokes, samples), s
    coasting: bool (strokes, samples), at least two True in a row
    """

    @staticmethod
    def forward(ctx, speed, times, coasting, inertia, unit="rad/s"):
        if unit not in ("rad/s", "rpm"):
            raise ValueError(f"unknown unit {unit!r}")
        w = speed * RPM if unit == "rpm" else speed
        c = coasting.to(speed.dtype)
        count = c.sum(-1, keepdim=True)
        slow = 1 / w
        t = times.expand_as(speed)
        dt = (t - (c * t).sum(-1, keepdim=True) / count) * c
        dy = (slow - (c * slow).sum(-1, keepdim=True) / count) * c
        sxx = dt.square().sum(-1, keepdim=True)
        slope = (dt * dy).sum(-1, keepdim=True) / sxx
        ctx.save_for_backward(w, dt, dy, sxx, slope)
        ctx.times_shape = times.shape
        ctx.gain = inertia * 1e6
        return ctx.gain * slope.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        w, dt, dy, sxx, slope = ctx.saved_tensors
        g = ctx.gain * grad.unsqueeze(-1) / sxx
        g_speed = -g * dt / w.square()
        g_times = (g * (dy - 2 * slope * dt)).sum_to_size(ctx.times_shape)
        return g_speed, g_times, None, None, None


def split_per_500m(power):
    """Seconds for 500 m at a steady power in watts."""
    return 500 * (2.80 / power) ** (1 / 3)


def simulate(torque, drag_factor, start, machine=Machine()):
    return FlywheelSpin.apply(torque, drag_factor * 1e-6, start, machine)


def main():
    t = torch.arange(0, 2.0, 0.01)
    torque = 18 * torch.sin(math.pi * t / 0.8).clamp(min=0) * (t < 0.8)
    w = simulate(torque[:, None], torch.tensor([120.0]), torch.tensor([40.0]))
    coast = (t > 0.9)[None]
    print("fitted", DragFactorFit.apply(w.T, t, coast, Machine().inertia).item())


if __name__ == "__main__":
    main()
