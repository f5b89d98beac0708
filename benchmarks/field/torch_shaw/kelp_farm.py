"""Process terms of the sugar-kelp farm model.

Arrays are laid out ``(line, depth)`` unless noted.  Nitrogen in umol N, dry mass in g,
light in umol photons m-2 s-1, rates per day.
"""
import torch

AMMONIUM_INHIBITION = 0.6
AMMONIUM_HALF = 1.5
LIGHT_CURVES = ("smith", "monod", "steele")


def _sum_to(grad, shape):
    """Sum ``grad`` down to ``shape`` (reverse of broadcasting)."""
    extra = grad.dim() - len(shape)
    if extra > 0:
        grad = grad.sum(tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and grad.shape[i] != 1)
    return grad.sum(axes, keepdim=True) if axes else grad


def _light(x, curve):
    if curve == "smith":
        r = torch.rsqrt(1 + x * x)
        return x * r, r ** 3
    if curve == "monod":
        r = 1 / (1 + x)
        return x * r, r * r
    if curve == "steele":
        e = torch.exp(1 - x)
        return x * e, (1 - x) * e
    raise ValueError(f"curve must be one of {LIGHT_CURVES}, got {curve!r}")


class DroopGrowth(torch.autograd.Function):
    """Quota- and light-limited specific growth.

    Parameters
    ----------
    quota : Tensor
        Internal nitrogen quota, positive.
    light : Tensor
        Irradiance, non-negative.
    quota_min, light_scale, mu_max : Tensor
        Positive parameters; each broadcasts against ``quota`` (a scalar, one value per
        line ``(L, 1)`` or one per depth ``(D,)``).
    curve : {'smith', 'monod', 'steele'}
        Light response.

    Returns
    -------
    Tensor
        ``mu_max * max(0, 1 - quota_min / quota) * f(light / light_scale)``
    """

    @staticmethod
    def forward(ctx, quota, light, quota_min, light_scale, mu_max, curve="smith"):
        limit = (1 - quota_min / quota).clamp_min(0)
        f, _ = _light(light / light_scale, curve)
        ctx.save_for_backward(quota, light, quota_min, light_scale, mu_max)
        ctx.curve = curve
        return mu_max * limit * f

    @staticmethod
    def backward(ctx, g):
        quota, light, quota_min, light_scale, mu_max = ctx.saved_tensors
        limit = (1 - quota_min / quota).clamp_min(0)
        x = light / light_scale
        f, df = _light(x, ctx.curve)
        starving = quota <= quota_min
        g_ratio = (g * mu_max * f).masked_fill(starving, 0)
        g_x = g * mu_max * limit * df
        return (
            _sum_to(g_ratio * quota_min / quota ** 2, quota.shape),
            _sum_to(g_x / light_scale, light.shape),
            _sum_to(-g_ratio / quota, quota_min.shape),
            _sum_to(-g_x * x / light_scale, light_scale.shape),
            _sum_to(g * limit * f, mu_max.shape),
            None,
        )


class NitrateUptake(torch.autograd.Function):
    """Nitrate uptake with ammonium inhibition and quota down-regulation.

    Parameters
    ----------
    nitrate, ammonium : Tensor
        Ambient concentrations (non-negative), same shape.
    quota : Tensor
        Internal quota, same shape. Any positive value: tissue below ``quota_range[0]``
        takes up at full speed, tissue above ``quota_range[1]`` not at all.
    v_max, k_half : Tensor
        Scalars (0-d).
    quota_range : (float, float)
    """

    @staticmethod
    def forward(ctx, nitrate, ammonium, quota, v_max, k_half, quota_range=(0.8, 3.0)):
        lo, hi = quota_range
        mm = nitrate / (k_half + nitrate)
        inhib = 1 - AMMONIUM_INHIBITION * ammonium / (AMMONIUM_HALF + ammonium)
        room = ((hi - quota) / (hi - lo)).clamp(0, 1)
        ctx.save_for_backward(nitrate, ammonium, v_max, k_half, mm, inhib, room)
        ctx.span = hi - lo
        return v_max * mm * inhib * room

    @staticmethod
    def backward(ctx, g):
        nitrate, ammonium, v_max, k_half, mm, inhib, room = ctx.saved_tensors
        g_mm = g * v_max * inhib * room
        g_n = g_mm * k_half / (k_half + nitrate) ** 2
        g_k = (-g_mm * nitrate / (k_half + nitrate) ** 2).sum()
        g_a = -g * v_max * mm * room * AMMONIUM_INHIBITION * AMMONIUM_HALF / (AMMONIUM_HALF + ammonium) ** 2
        g_q = torch.where(room > 0, -g * v_max * mm * inhib / ctx.span, torch.zeros_like(g))
        g_v = (g * mm * inhib * room).sum()
        return g_n, g_a, g_q, g_v, g_k, None


class RaftTotals(torch.autograd.Function):
    """Collect lines into rafts.

    Parameters
    ----------
    biomass : Tensor, shape (L, D)
    raft_of : LongTensor, shape (L,)
        Raft of each line; -1 marks a line lost at sea.
    area : Tensor, shape (R,)
        Raft areas, used by ``how='density'``.
    how : {'sum', 'mean', 'density'}

    Returns
    -------
    Tensor, shape (R, D)
        Rafts without a line hold zero.
    """

    @staticmethod
    def forward(ctx, biomass, raft_of, area, how="sum"):
        n = area.shape[0]
        kept = raft_of >= 0
        where = raft_of[kept]
        total = biomass.new_zeros(n, biomass.shape[1]).index_add_(0, where, biomass[kept])
        if how == "mean":
            div = torch.bincount(where, minlength=n).clamp_min(1).to(area.dtype)
        else:
            div = area if how == "density" else torch.ones_like(area)
        out = total / div[:, None]
        ctx.save_for_backward(kept, where, div, out)
        ctx.how = how
        return out

    @staticmethod
    def backward(ctx, g):
        kept, where, div, out = ctx.saved_tensors
        scaled = g / div[:, None]
        g_biomass = g.new_zeros(kept.shape[0], g.shape[1])
        g_biomass[kept] = scaled[where]
        g_area = -(scaled * out).sum(1) if ctx.how == "density" else None
        return g_biomass, None, g_area, None


class NeighbourShade(torch.autograd.Function):
    """Fraction of light left after the blades of neighbouring lines.

    Parameters
    ----------
    blade_area : Tensor, shape (L,)
    extinction : Tensor, 0-d
    table : LongTensor, shape (L, K)
        Lines which shade line ``l``; rows are filled up with -1.
    """

    @staticmethod
    def forward(ctx, blade_area, extinction, table):
        valid = table >= 0
        seen = blade_area[table.clamp_min(0)] * valid
        cover = seen.sum(1)
        left = torch.exp(-extinction * cover)
        ctx.save_for_backward(extinction, table, cover, left)
        return left

    @staticmethod
    def backward(ctx, g):
        extinction, table, cover, left = ctx.saved_tensors
        g_cover = -extinction * g * left
        g_area = torch.zeros_like(g)
        for k in range(table.shape[1]):
            column = table[:, k]
            rows = column >= 0
            g_area[column[rows]] += g_cover[rows]
        return g_area, -(g * left * cover).sum(), None


def daily_step(state, forcing, par, table, dt=1.0):
    """One explicit step of ``(mass, quota)``; ``state['mass']`` is (L, D)."""
    shade = NeighbourShade.apply(state["mass"].sum(1) * par["area_per_g"], par["extinction"], table)
    light = forcing["light"] * shade[:, None]
    mu = DroopGrowth.apply(state["quota"], light, par["q_min"], par["i_k"], par["mu_max"], "steele")
    up = NitrateUptake.apply(forcing["no3"], forcing["nh4"], state["quota"], par["v_max"], par["k_n"])
    return {"mass": state["mass"] * torch.exp(mu * dt), "quota": state["quota"] + dt * (up - mu * state["quota"])}
