import torch
import torch.nn as nn


class TrapezoidDuration(torch.autograd.Function):
    # signed displacement, speed limit, acceleration limit
    @staticmethod
    def forward(ctx, delta, vmax, amax):
        dist = delta.abs()
        cruise = dist * amax > vmax * vmax
        ctx.save_for_backward(delta, vmax, amax, cruise)
        return torch.where(cruise, dist / vmax + vmax / amax, 2 * torch.sqrt(dist / amax))

    @staticmethod
    def backward(ctx, g):
        delta, vmax, amax, cruise = ctx.saved_tensors
        dist = delta.abs()
        root = torch.sqrt(dist * amax)
        g_delta = g * torch.where(cruise, 1 / vmax, 1 / root)
        g_v = g * torch.where(cruise, 1 / amax - dist / vmax**2, torch.zeros_like(dist))
        g_a = -g * torch.where(cruise, vmax / amax**2, root / amax**2)
        return (
            g_delta.sum_to_size(delta.shape),
            g_v.sum_to_size(vmax.shape),
            g_a.sum_to_size(amax.shape),
        )


def synchronised_duration(q_from, q_to, vmax, amax):
    return TrapezoidDuration.apply(q_to - q_from, vmax, amax).amax(-1)


def _shift(x, d, wrap):
    if wrap:
        return torch.roll(x, d, -1)
    if d >= x.shape[-1]:
        return torch.zeros_like(x)
    return nn.functional.pad(x, (d, 0))[..., : x.shape[-1]]


def _unshift(x, d, wrap):
    if wrap:
        return torch.roll(x, -d, -1)
    if d >= x.shape[-1]:
        return torch.zeros_like(x)
    return nn.functional.pad(x[..., d:], (0, d))


class MultiTap(torch.autograd.Function):
    @staticmethod
    def forward(x, gains, delays, wrap=False):
        y = x.clone()
        for g, d in zip(gains, delays.tolist()):
            y = y + g * _shift(x, d, wrap)
        return y

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gains, delays, ctx.wrap = inputs
        ctx.save_for_backward(x, gains, delays)

    @staticmethod
    def backward(ctx, gy):
        x, gains, delays = ctx.saved_tensors
        T = x.shape[-1]
        gx = gy.clone()
        gg = []
        for g, d in zip(gains, delays.tolist()):
            gx = gx + g * _unshift(gy, d, ctx.wrap)
            gg.append((gy[..., d:] * x[..., : max(T - d, 0)]).sum())
        return gx, torch.stack(gg), None, None


class EchoBank(nn.Module):
    def __init__(self, delays, wrap=False):
        super().__init__()
        self.register_buffer("delays", torch.as_tensor(delays, dtype=torch.long))
        self.gains = nn.Parameter(0.5 ** torch.arange(1, len(delays) + 1))
        self.wrap = wrap

    def forward(self, x):
        return MultiTap.apply(x, self.gains, self.delays, self.wrap)


def _mix(mode, a, b):
    if mode == "multiply":
        return a * b, b, a
    if mode == "screen":
        return a + b - a * b, 1 - b, 1 - a
    if mode == "overlay":
        dark = a < 0.5
        return (
            torch.where(dark, 2 * a * b, 1 - 2 * (1 - a) * (1 - b)),
            torch.where(dark, 2 * b, 2 * (1 - b)),
            torch.where(dark, 2 * a, 2 * (1 - a)),
        )
    if mode == "soft_light":
        return (1 - 2 * b) * a * a + 2 * a * b, 2 * a * (1 - 2 * b) + 2 * b, 2 * a * (1 - a)
    if mode == "dodge":
        s = a + b
        open_ = (s <= 1).to(a.dtype)
        return s.clamp(max=1.0), open_, open_
    raise ValueError(mode)


class BlendLayer(torch.autograd.Function):
    # base, layer: (..., C, H, W); alpha: (..., 1, H, W) or anything that broadcasts
    @staticmethod
    def forward(ctx, base, layer, alpha, mode):
        ctx.save_for_backward(base, layer, alpha)
        ctx.mode = mode
        mixed, _, _ = _mix(mode, base, layer)
        return base + alpha * (mixed - base)

    @staticmethod
    def backward(ctx, g):
        base, layer, alpha = ctx.saved_tensors
        mixed, da, db = _mix(ctx.mode, base, layer)
        ga = g * alpha
        g_base = (g - ga + ga * da).sum_to_size(base.shape)
        g_layer = (ga * db).sum_to_size(layer.shape)
        g_alpha = (g * (mixed - base)).sum_to_size(alpha.shape)
        return g_base, g_layer, g_alpha, None


def composite_stack(base, layers, alphas, modes):
    for layer, alpha, mode in zip(layers, alphas, modes):
        base = BlendLayer.apply(base, layer, alpha, mode)
    return base


class PIDRollout(torch.autograd.Function):
    @staticmethod
    def forward(ctx, ref, y0, gains, dt, tau, i_max, u_max):
        kp, ki, kd = gains
        y = y0
        integ = torch.zeros_like(y0)
        prev = ref[:, 0] - y0
        ys, errs, ints, us = [], [], [], []
        for t in range(ref.shape[1]):
            e = ref[:, t] - y
            integ = (integ + dt * e).clamp(-i_max, i_max)
            u = kp * e + ki * integ + kd * (e - prev) / dt
            y = y + dt / tau * (u.clamp(-u_max, u_max) - y)
            prev = e
            ys.append(y), errs.append(e), ints.append(integ), us.append(u)
        ctx.save_for_backward(gains, torch.stack(errs, 1), torch.stack(ints, 1), torch.stack(us, 1))
        ctx.consts = dt, tau, u_max
        return torch.stack(ys, 1)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gys):
        gains, errs, ints, us = ctx.saved_tensors
        dt, tau, u_max = ctx.consts
        kp, ki, kd = gains
        g_ref = torch.zeros_like(errs)
        g_gain = torch.zeros_like(gains)
        gy = torch.zeros_like(errs[:, 0])
        g_int = torch.zeros_like(gy)
        g_prev = torch.zeros_like(gy)
        for t in range(errs.shape[1] - 1, -1, -1):
            e, integ, u = errs[:, t], ints[:, t], us[:, t]
            before = errs[:, t - 1] if t > 0 else e
            gy = gy + gys[:, t]
            gu = dt / tau * gy * (u.abs() <= u_max)
            rate = (e - before) / dt
            g_gain += torch.stack([(gu * e).sum(), (gu * integ).sum(), (gu * rate).sum()])
            g_int = g_int + ki * gu
            ge = kp * gu + kd * gu / dt + dt * g_int + g_prev
            g_prev = -kd * gu / dt
            g_ref[:, t] = ge
            gy = (1 - dt / tau) * gy - ge
        g_ref[:, 0] += g_prev
        gy = gy - g_prev
        return g_ref, gy, g_gain, None, None, None, None


class TunedLoop(nn.Module):
    def __init__(self, dt=0.05, tau=0.5, i_max=1.0, u_max=5.0):
        super().__init__()
        self.gains = nn.Parameter(torch.tensor([2.0, 0.5, 0.02]))
        self.cfg = (dt, tau, i_max, u_max)

    def forward(self, ref, y0):
        return PIDRollout.apply(ref, y0, self.gains, *self.cfg)


def tune(loop, ref, y0, steps=100, lr=1e-2):
    opt = torch.optim.Adam(loop.parameters(), lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        loss = (loop(ref, y0) - ref).square().mean()
        loss.backward()
        opt.step()
    return loss.item()
