"""Valve train of a small four-stroke engine: cam lobe, follower, valve and port.

Lengths in millimetres, angles of the cam in radians, forces in newtons, time in seconds.
Used to fit lobe and spring to a wanted flow with an ordinary optimiser.
"""

import math

import torch
from torch.autograd import Function

TURN = 2 * math.pi


def _law(u, kind):
    """Normalised rise and its slope for 0 <= u <= 1."""
    if kind == "cycloidal":
        return u - torch.sin(TURN * u) / TURN, 1 - torch.cos(TURN * u)
    if kind == "harmonic":
        return (1 - torch.cos(math.pi * u)) / 2, math.pi / 2 * torch.sin(math.pi * u)
    if kind == "poly345":
        return u**3 * (10 - 15 * u + 6 * u**2), 30 * u**2 * (1 - u) ** 2
    raise ValueError(f"unknown law {kind!r}")


def _reduce(g, shape):
    extra = g.dim() - len(shape)
    if extra:
        g = g.sum(tuple(range(extra)))
    axes = tuple(d for d, n in enumerate(shape) if n == 1 and g.shape[d] != 1)
    return g.sum(axes, keepdim=True) if axes else g


class CamLift(Function):
    """Lift of the follower at cam angle `theta` (any shape; a full turn starts over).

    The lobe opens during `rise`, stays at `height` during `dwell`, closes during `fall` and rests
    on the base circle for what is left of the turn.  The four are 0-d tensors.  `kind` names the
    motion law: cycloidal, harmonic or poly345.
    """

    @staticmethod
    def forward(ctx, theta, height, rise, dwell, fall, kind="cycloidal"):
        t = torch.remainder(theta, TURN)
        after = t - rise - dwell
        up, top, down = t < rise, (t >= rise) & (after < 0), (after >= 0) & (after < fall)
        u = torch.where(up, t / rise, torch.where(down, 1 - after / fall, top.to(t.dtype)))
        f, slope = _law(u, kind)
        ctx.save_for_backward(t, after, up, down, f, slope, height, rise, fall)
        return height * f

    @staticmethod
    def backward(ctx, grad):
        t, after, up, down, f, slope, height, rise, fall = ctx.saved_tensors
        g = grad * height * slope
        opening, closing = g * up, g * down
        g_theta = opening / rise - closing / fall
        g_rise = -(opening * t).sum() / rise**2
        g_dwell = closing.sum() / fall
        g_fall = (closing * after).sum() / fall**2
        return g_theta, (grad * f).sum(), g_rise, g_dwell, g_fall, None


class SeatBounceRollout(Function):
    """Motion of the valve over a recorded or designed lift, semi-implicit Euler.

    m a = stiff (lift - x) - damp v - preload + seat max(-x, 0)

    lift: (steps, valves), start: (valves,) with the valve at rest there; stiff, damp, mass, preload
    and seat are 0-d.  Returns the positions after each step, (steps, valves).
    """

    @staticmethod
    def forward(ctx, lift, start, stiff, damp, mass, preload, seat, dt):
        x, v = start, torch.zeros_like(start)
        xs, vs = [x], [v]
        for y in lift:
            a = (stiff * (y - x) - damp * v - preload + seat * torch.relu(-x)) / mass
            v = v + dt * a
            x = x + dt * v
            xs.append(x)
            vs.append(v)
        ctx.save_for_backward(lift, torch.stack(xs), torch.stack(vs), stiff, damp, mass, seat)
        ctx.dt = dt
        return torch.stack(xs[1:])

    @staticmethod
    def backward(ctx, grad):
        lift, xs, vs, stiff, damp, mass, seat = ctx.saved_tensors
        dt = ctx.dt
        gx = torch.zeros_like(xs[0])
        gv = torch.zeros_like(gx)
        g_lift = torch.empty_like(lift)
        g_stiff = g_damp = g_mass = g_pre = g_seat = lift.new_zeros(())
        for n in range(lift.shape[0] - 1, -1, -1):
            x, v = xs[n], vs[n]
            gx = gx + grad[n]
            gv = gv + dt * gx
            gf = dt * gv / mass
            g_lift[n] = gf * stiff
            g_stiff = g_stiff + (gf * (lift[n] - x)).sum()
            g_damp = g_damp - (gf * v).sum()
            g_pre = g_pre - gf.sum()
            g_seat = g_seat + (gf * torch.relu(-x)).sum()
            g_mass = g_mass - (gf * (vs[n + 1] - v)).sum() / dt
            gx = gx - gf * (stiff + seat * (x < 0))
            gv = gv - gf * damp
        return g_lift, gx, g_stiff, g_damp, g_mass, g_pre, g_seat, None


class HertzFollowerPressure(Function):
    """Peak line-contact pressure (N/mm2) between lobe and follower.

    force and curvature (1/mm, negative on a hollow flank) broadcast against roller (radius of the
    follower in mm, inf for a flat tappet) and face (width in mm); modulus is the reduced modulus, 0-d.
    No pressure where the follower floats (force <= 0) or the pair conforms (no positive curvature).
    """

    @staticmethod
    def forward(ctx, force, curvature, roller, face, modulus):
        kappa = curvature + 1 / roller
        touching = (force > 0) & (kappa > 0)
        arg = torch.where(touching, force * kappa * modulus / (math.pi * face), torch.ones_like(force * kappa))
        p = torch.sqrt(arg) * touching
        ctx.save_for_backward(force, curvature, roller, face, modulus, p)
        return p

    @staticmethod
    def backward(ctx, grad):
        force, curvature, roller, face, modulus, p = ctx.saved_tensors
        kappa = curvature + 1 / roller
        on = p > 0
        half = grad * p / 2
        one = torch.ones_like(p)
        g_force = half / torch.where(on, force * one, one)
        g_kappa = half / torch.where(on, kappa * one, one)
        return (
            _reduce(g_force, force.shape),
            _reduce(g_kappa, curvature.shape),
            _reduce(-g_kappa / roller**2, roller.shape),
            _reduce(-half / face, face.shape),
            half.sum() / modulus,
        )


class PortFlowArea(Function):
    """Smallest free area (mm2) between valve and seat at a lift, in three stages.

    lift (N,); head, seat, port, stem: 0-d, the head diameter, the seat width, and the diameters of
    port and stem; `angle` of the seat in degrees.  First the area is the frustum normal to the seat,
    then the slant between the seat's edges, at last what the stem leaves of the port.
    """

    @staticmethod
    def forward(ctx, lift, head, seat, port, stem, angle=45.0):
        b = math.radians(angle)
        s, c, tan = math.sin(b), math.cos(b), math.tan(b)
        mean = head - seat
        low = lift * s * c < seat
        frustum = math.pi * lift * c * (head - 2 * seat + lift * s * c)
        slant = torch.sqrt((lift - seat * tan) ** 2 + seat**2)
        bore = math.pi / 4 * (port**2 - stem**2)
        ring = math.pi * mean * slant
        full = ~low & (ring > bore)
        ctx.save_for_backward(lift, head, seat, port, stem, slant, low, full)
        ctx.trig = s, c, tan
        return torch.where(low, frustum, torch.where(full, bore, ring))

    @staticmethod
    def backward(ctx, grad):
        lift, head, seat, port, stem, slant, low, full = ctx.saved_tensors
        s, c, tan = ctx.trig
        mean = head - seat
        first, last = grad * low * math.pi, (grad * full).sum() * math.pi / 2
        middle = grad * ~(low | full) * math.pi
        edge = (lift - seat * tan) / slant
        g_lift = first * c * (head - 2 * seat + 2 * lift * s * c) + middle * mean * edge
        g_head = (first * lift * c + middle * slant).sum()
        g_seat = (-2 * first * lift * c + middle * mean * (seat / slant - tan * edge)).sum()
        return g_lift, g_head, g_seat, last * port, -last * stem, None


def mean_flow_area(height, rise, dwell, fall, head, seat, port, stem, n=360):
    theta = torch.linspace(0, TURN, n + 1, dtype=height.dtype)[:-1]
    return PortFlowArea.apply(CamLift.apply(theta, height, rise, dwell, fall), head, seat, port, stem).mean()


def main():
    p = [torch.tensor(x, requires_grad=True) for x in (9.0, 1.1, 0.1, 1.2, 33.0, 2.0, 28.0, 6.0)]
    area = mean_flow_area(*p)
    area.backward()
    print(f"mean area {area.item():.1f} mm2, per mm of lobe {p[0].grad.item():.2f}")


if __name__ == "__main__":
    main()
