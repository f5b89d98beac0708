"""Urea kinetics for haemodialysis sessions.

Concentrations are in mg/dL, flows in mL/min, volumes in mL and session lengths in hours unless a name says
otherwise.  Everything is batched over sessions.
"""

from dataclasses import dataclass
from typing import Optional

import torch
from torch import nn
from torch.autograd import Function

# slope and offset of the rebound correction, per vascular access
REBOUND = {"fistula": (0.60, 0.03), "catheter": (0.47, 0.02)}


@dataclass
class ClinicSettings:
    generation: float = 0.0  # mg/dL * mL per minute
    minutes_per_step: float = 5.0
    access: Optional[str] = None


def _fit(grad, shape):
    """Sum ``grad`` down to ``shape`` after broadcasting."""
    if grad.shape == shape:
        return grad
    return grad.sum_to_size(shape)


def _phi(x):
    """expm1(x) / x and its slope, smooth through zero."""
    near = x.abs() < 0.1
    safe = torch.where(near, torch.ones_like(x), x)
    far_value = torch.expm1(safe) / safe
    far_slope = (safe * torch.exp(safe) - torch.expm1(safe)) / (safe * safe)
    near_value = 1 + x * (
        1 / 2 + x * (1 / 6 + x * (1 / 24 + x * (1 / 120 + x * (1 / 720 + x / 5040))))
    )
    near_slope = 1 / 2 + x * (
        1 / 3 + x * (1 / 8 + x * (1 / 30 + x * (1 / 144 + x * (1 / 840 + x / 5760))))
    )
    return torch.where(near, near_value, far_value), torch.where(near, near_slope, far_slope)


class SessionKtV(Function):
    """Daugirdas' second generation Kt/V, optionally equilibrated for rebound.

    :param pre: urea before the session
    :param post: urea after the session, any shape that broadcasts with ``pre``
    :param hours: session length
    :param litres: fluid removed
    :param weight: weight after the session, kg
    :param access: ``None`` for the single pool value, or a key of ``REBOUND``
    """

    @staticmethod
    def forward(ctx, pre, post, hours, litres, weight, access):
        ratio = post / pre
        inner = ratio - 0.008 * hours
        removed = litres / weight
        single = -torch.log(inner) + (4.0 - 3.5 * ratio) * removed
        ctx.access = access
        ctx.save_for_backward(pre, post, hours, litres, weight)
        if access is None:
            return single
        slope, offset = REBOUND[access]
        return single * (1.0 - slope / hours) + offset

    @staticmethod
    def backward(ctx, grad):
        pre, post, hours, litres, weight = ctx.saved_tensors
        ratio = post / pre
        inner = ratio - 0.008 * hours
        removed = litres / weight
        if ctx.access is not None:
            grad = grad * (1.0 - REBOUND[ctx.access][0] / hours)
        g_ratio = grad * (-1.0 / inner - 3.5 * removed)
        g_removed = grad * (4.0 - 3.5 * ratio)
        g_hours = grad * 0.008 / inner
        return (
            _fit(-g_ratio * ratio / pre, pre.shape),
            _fit(g_ratio / pre, post.shape),
            _fit(g_hours, hours.shape),
            _fit(g_removed / weight, litres.shape),
            _fit(-g_removed * removed / weight, weight.shape),
            None,
        )


class TwoPoolUrea(Function):
    """Urea in the perfused pool, marched with explicit steps.

    start, exchange, perfused and remote are (B,), clearance and running are (B, T); the result is (B, T), the
    perfused concentration after each step. Steps where ``running`` is False are in bypass.
    """

    @staticmethod
    def forward(ctx, start, clearance, exchange, perfused, remote, running, step, generation):
        near, far = start, start
        nears, fars, out = [], [], []
        active = clearance * running.to(clearance.dtype)
        for t in range(clearance.shape[1]):
            nears.append(near)
            fars.append(far)
            flux = exchange * (far - near)
            near, far = (
                near + step / perfused * (flux - active[:, t] * near + generation),
                far - step / remote * flux,
            )
            out.append(near)
        ctx.step, ctx.generation = step, generation
        ctx.save_for_backward(
            active, exchange, perfused, remote, running, torch.stack(nears, 1), torch.stack(fars, 1)
        )
        return torch.stack(out, 1)

    @staticmethod
    def backward(ctx, grad):
        active, exchange, perfused, remote, running, nears, fars = ctx.saved_tensors
        step = ctx.step
        on = running.to(active.dtype)
        lam_near = torch.zeros_like(exchange)
        lam_far = torch.zeros_like(exchange)
        g_clear = torch.zeros_like(active)
        g_exchange = torch.zeros_like(exchange)
        g_perfused = torch.zeros_like(perfused)
        g_remote = torch.zeros_like(remote)
        for t in range(active.shape[1] - 1, -1, -1):
            near, far = nears[:, t], fars[:, t]
            lam_near = lam_near + grad[:, t]
            into, away = lam_near * step / perfused, lam_far * step / remote
            gap = far - near
            g_clear[:, t] = -into * near * on[:, t]
            g_exchange += (into - away) * gap
            g_perfused -= into / perfused * (exchange * gap - active[:, t] * near + ctx.generation)
            g_remote += away / remote * exchange * gap
            mixed = (into - away) * exchange
            lam_near, lam_far = lam_near - mixed - into * active[:, t], lam_far + mixed
        return lam_near + lam_far, g_clear, g_exchange, g_perfused, g_remote, None, None, None


class DialyserClearance(Function):
    """Counter-current clearance of a filter picked by number, with a convective share.

    With ``A = KoA * phi(KoA (1/Qb - 1/Qd))`` the diffusive clearance is ``Qb A / (Qb + A)``; ultrafiltration adds
    ``Quf (1 - K / Qb)``. Blood and dialysate flow may be equal or in either order.
    """

    @staticmethod
    def forward(ctx, table, blood, dialysate, convective, filters):
        koa = table[filters]
        phi, _ = _phi(koa * (1 / blood - 1 / dialysate))
        conduct = koa * phi
        diffusive = blood * conduct / (blood + conduct)
        ctx.save_for_backward(table, blood, dialysate, convective, filters)
        return diffusive + convective * (1 - diffusive / blood)

    @staticmethod
    def backward(ctx, grad):
        table, blood, dialysate, convective, filters = ctx.saved_tensors
        koa = table[filters]
        lean = 1 / blood - 1 / dialysate
        phi, slope = _phi(koa * lean)
        conduct = koa * phi
        share = conduct / (blood + conduct)
        g_diff = grad * (1 - convective / blood)
        g_conduct = g_diff * (1 - share) ** 2
        g_blood = g_diff * share**2 + grad * convective * share / blood
        g_blood = g_blood - g_conduct * koa**2 * slope / blood**2
        g_dialysate = g_conduct * koa**2 * slope / dialysate**2
        g_koa = g_conduct * (phi + koa * slope * lean)
        g_table = torch.zeros_like(table).index_add_(0, filters, g_koa)
        return g_table, g_blood, g_dialysate, grad * (1 - share), None


def session_ktv(pre, post, hours, litres, weight, access=None):
    return SessionKtV.apply(pre, post, hours, litres, weight, access)


def two_pool_urea(start, clearance, exchange, perfused, remote, running, step=5.0, generation=0.0):
    return TwoPoolUrea.apply(
        start, clearance, exchange, perfused, remote, running, step, generation
    )


def dialyser_clearance(table, blood, dialysate, convective, filters):
    return DialyserClearance.apply(table, blood, dialysate, convective, filters)


class DialysisSession(nn.Module):
    """Course of one session per row, filters having learnable KoA."""

    def __init__(self, koa, settings: ClinicSettings = ClinicSettings()):
        super().__init__()
        self.koa = nn.Parameter(torch.as_tensor(koa))
        self.settings = settings

    def forward(self, start, blood, dialysate, convective, filters, pools, running):
        exchange, perfused, remote = pools
        clear = dialyser_clearance(self.koa, blood, dialysate, convective, filters)
        schedule = clear[:, None].expand(running.shape)
        s = self.settings
        return two_pool_urea(
            start, schedule, exchange, perfused, remote, running, s.minutes_per_step, s.generation
        )

    def adequacy(self, start, course, hours, litres, weight):
        return session_ktv(start, course[:, -1], hours, litres, weight, self.settings.access)
