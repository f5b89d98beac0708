# Motion primitives for the planner: reference profiles, odometry, tyres, paths.
import math

import torch
from torch import nn
from torch.autograd.function import once_differentiable


def _jerk_profile(tau):
    """Minimum jerk polynomial on [0, 1] and its first two derivatives."""
    rest = 1 - tau
    s = tau ** 3 * (10 - 15 * tau + 6 * tau ** 2)
    ds = 30 * tau ** 2 * rest ** 2
    dds = 60 * tau * rest * (1 - 2 * tau)
    return s, ds, dds


class MinimumJerkTrack(torch.autograd.Function):
    """Position and velocity on a minimum jerk move from `start` to `goal`.

    start and goal are (..., dof), duration is (...) and positive, times is (samples,).
    Before 0 the arm rests at the start, after the duration it rests at the goal. Gives two
    tensors of shape (..., samples, dof). All four inputs get gradients, the times too
    (they are optimized together with the durations when moves are chained).
    """

    @staticmethod
    def forward(ctx, start, goal, duration, times):
        ctx.save_for_backward(start, goal, duration, times)
        length = duration[..., None]
        s, ds, _ = _jerk_profile((times / length).clamp(0, 1))
        reach = (goal - start)[..., None, :]
        position = start[..., None, :] + reach * s[..., None]
        velocity = reach * (ds / length)[..., None]
        return position, velocity

    @staticmethod
    def backward(ctx, grad_position, grad_velocity):
        start, goal, duration, times = ctx.saved_tensors
        length = duration[..., None]
        tau = (times / length).clamp(0, 1)
        s, ds, dds = _jerk_profile(tau)
        rate = ds / length

        grad_reach = (grad_position * s[..., None] + grad_velocity * rate[..., None]).sum(-2)
        grad_start = grad_position.sum(-2) - grad_reach

        reach = (goal - start)[..., None, :]
        along_p = (grad_position * reach).sum(-1)
        along_v = (grad_velocity * reach).sum(-1)
        # the profile is flat (ds = dds = 0) at both ends, so the clamp needs no mask
        grad_tau = along_p * ds + along_v * dds / length
        grad_duration = -(grad_tau * tau + along_v * rate).sum(-1) / duration
        grad_times = (grad_tau / length).sum_to_size(times.shape)
        return grad_start, grad_reach, grad_duration, grad_times


class DifferentialDriveArc(torch.autograd.Function):
    """One odometry step of a differential drive along an exact circular arc.

    pose    (..., 3): x, y, heading
    wheels  (..., 2): speed of the left and of the right wheel; equal speeds drive
            straight on, opposite ones turn on the spot
    track   (): distance between the wheels
    dt      float

    Returns the new pose, (..., 3). The heading is not wrapped.
    """

    @staticmethod
    def forward(ctx, pose, wheels, track, dt):
        ctx.save_for_backward(pose, wheels, track)
        ctx.dt = dt
        left, right = wheels.unbind(-1)
        speed = 0.5 * (left + right)
        half_turn = 0.5 * dt * (right - left) / track
        # chord of the arc; torch.sinc is sin(pi x) / (pi x)
        chord = speed * dt * torch.sinc(half_turn / math.pi)
        x, y, heading = pose.unbind(-1)
        toward = heading + half_turn
        return torch.stack(
            (x + chord * toward.cos(), y + chord * toward.sin(), heading + 2 * half_turn), -1
        )

    @staticmethod
    def backward(ctx, grad_pose):
        pose, wheels, track = ctx.saved_tensors
        dt = ctx.dt
        left, right = wheels.unbind(-1)
        speed = 0.5 * (left + right)
        turn_rate = (right - left) / track
        half_turn = 0.5 * dt * turn_rate
        straight = turn_rate.abs() < 1e-6
        safe = torch.where(straight, torch.ones_like(half_turn), half_turn)

        sinc = torch.where(straight, torch.ones_like(safe), safe.sin() / safe)
        dsinc = (safe.cos() - sinc) / safe
        toward = pose[..., 2] + half_turn
        gx, gy, gh = grad_pose.unbind(-1)
        along = gx * toward.cos() + gy * toward.sin()
        across = gy * toward.cos() - gx * toward.sin()
        chord = speed * dt * sinc

        grad_heading = gh + across * chord
        grad_speed = along * dt * sinc
        arc = 0.5 * dt * (across * chord + along * speed * dt * dsinc)
        grad_rate = gh * dt + torch.where(straight, torch.zeros_like(arc), arc)

        grad_right = 0.5 * grad_speed + grad_rate / track
        grad_left = 0.5 * grad_speed - grad_rate / track
        grad_track = -(grad_rate * turn_rate).sum() / track
        return (
            torch.stack((gx, gy, grad_heading), -1),
            torch.stack((grad_left, grad_right), -1),
            grad_track,
            None,
        )


class Odometry(nn.Module):
    """Dead reckoning with a calibrated track width."""

    def __init__(self, track=0.35, dt=0.02):
        super().__init__()
        self.track = nn.Parameter(torch.tensor(float(track)))
        self.dt = dt

    def forward(self, pose, wheel_log):
        path = [pose]
        for wheels in wheel_log.unbind(-2):
            path.append(DifferentialDriveArc.apply(path[-1], wheels, self.track, self.dt))
        return torch.stack(path, -2)


class PacejkaForce(torch.autograd.Function):
    """Tyre force of the magic formula.

        F = peak * load * sin(shape * atan(u)),   u = (1 - curve) * q + curve * atan(q),
        q = stiff * slip

    slip and load have the same shape, the coefficients are scalars. The slip is an angle in
    radians, or in degrees with degrees=True (the logs of the test rig); the stiffness is
    always per radian.
    """

    @staticmethod
    def forward(slip, load, stiff, shape, peak, curve, degrees):
        angle = torch.deg2rad(slip) if degrees else slip
        q = stiff * angle
        u = (1 - curve) * q + curve * torch.atan(q)
        return peak * load * torch.sin(shape * torch.atan(u))

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, degrees = inputs
        ctx.save_for_backward(*tensors)
        ctx.degrees = degrees

    @staticmethod
    def backward(ctx, grad):
        slip, load, stiff, shape, peak, curve = ctx.saved_tensors
        angle = torch.deg2rad(slip) if ctx.degrees else slip
        q = stiff * angle
        atan_q = torch.atan(q)
        u = (1 - curve) * q + curve * atan_q
        atan_u = torch.atan(u)
        wave = torch.sin(shape * atan_u)

        g_phase = grad * peak * load * torch.cos(shape * atan_u)
        g_u = g_phase * shape / (1 + u * u)
        g_q = g_u * (1 - curve + curve / (1 + q * q))
        return (
            g_q * stiff,
            grad * peak * wave,
            (g_q * angle).sum(),
            (g_phase * atan_u).sum(),
            (grad * load * wave).sum(),
            (g_u * (atan_q - q)).sum(),
            None,
        )


def lateral_force(slip, load, coefficients, degrees=False):
    """`coefficients` is a dict with the entries stiff, shape, peak and curve."""
    c = coefficients
    return PacejkaForce.apply(slip, load, c["stiff"], c["shape"], c["peak"], c["curve"], degrees)


class ArcLengthResample(torch.autograd.Function):
    """Resample a polyline at equal distances along its length.

    Takes points (n, dim), n > 1, with no two neighbours equal, and gives (samples, dim). An open
    line is sampled from its first to its last point, both included. With `closed` the last
    point is joined to the first and the starting point is not repeated. The total length is
    itself a function of the points and is differentiated too. A sample that lands exactly on a
    vertex counts to the segment that starts there. First derivatives only.
    """

    @staticmethod
    def forward(ctx, points, samples, closed=False):
        n = points.shape[0]
        tail = points.roll(-1, 0) if closed else points[1:]
        head = points if closed else points[:-1]
        edge = tail - head
        length = edge.norm(dim=-1)
        knots = torch.cat([length.new_zeros(1), length.cumsum(0)])
        if closed:
            u = torch.arange(samples, dtype=points.dtype, device=points.device) / samples
        else:
            u = torch.linspace(0, 1, samples, dtype=points.dtype, device=points.device)
        along = u * knots[-1]
        seg = torch.searchsorted(knots, along, right=True) - 1
        seg = seg.clamp(0, edge.shape[0] - 1)
        frac = (along - knots[seg]) / length[seg]
        ctx.save_for_backward(edge, length, u, seg, frac)
        ctx.n = n
        return head[seg] + frac[:, None] * edge[seg]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        edge, length, u, seg, frac = ctx.saved_tensors
        n, m = ctx.n, edge.shape[0]
        # frac_j = (u_j * sum(length) - sum(length[:seg_j])) / length[seg_j]
        push = (grad * edge[seg]).sum(-1) / length[seg]
        per_seg = push.new_zeros(m).index_add_(0, seg, push)
        later = per_seg.sum() - per_seg.cumsum(0)
        own = push.new_zeros(m).index_add_(0, seg, push * frac)
        grad_length = (push * u).sum() - later - own

        grad_edge = grad_length[:, None] * edge / length[:, None]
        grad_edge = grad_edge.index_add(0, seg, frac[:, None] * grad)
        grad_points = grad.new_zeros(n, grad.shape[1]).index_add_(0, seg, grad)
        first = torch.arange(m, device=grad.device)
        grad_points.index_add_(0, first, -grad_edge)
        grad_points.index_add_(0, (first + 1) % n, grad_edge)
        return grad_points, None, None


def resample_path(points, samples=64, closed=False):
    return ArcLengthResample.apply(points, samples, closed)
