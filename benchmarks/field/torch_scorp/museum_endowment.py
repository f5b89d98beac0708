"""
A museum's endowment: how much may be spent, what the managers cost, what each fund owns.

Everything is differentiable so that the board can ask "what if" questions about policy numbers.
"""
import torch
from torch.autograd import Function


class SmoothedSpending(Function):
    """Spending by the smoothing rule, with the trustees' floor and cap.

    raw[t]    = w * spend[t-1] * (1 + infl[t]) + (1 - w) * rate * nav[t]
    spend[t]  = raw[t], but not under floor * nav[t] and not over cap * nav[t]
    nav[t+1]  = (nav[t] - spend[t]) * (1 + ret[t])

    nav0, spend0: (paths,);  ret: (paths, years);  infl: (years,), one inflation for all paths;
    w, rate: scalar tensors.  Returns spending (paths, years) and the closing value (paths,).
    """

    @staticmethod
    def forward(ctx, nav0, spend0, ret, infl, w, rate, floor=0.03, cap=0.07):
        nav, s = nav0, spend0
        navs, spends = [], []
        for t in range(ret.shape[1]):
            raw = w * s * (1 + infl[t]) + (1 - w) * rate * nav
            s = torch.minimum(torch.maximum(raw, floor * nav), cap * nav)
            navs.append(nav)
            spends.append(s)
            nav = (nav - s) * (1 + ret[:, t])
        spends = torch.stack(spends, 1)
        ctx.save_for_backward(torch.stack(navs, 1), spends, spend0, ret, infl, w, rate)
        ctx.limits = floor, cap
        return spends, nav

    @staticmethod
    def backward(ctx, g_spend, g_nav):
        navs, spends, spend0, ret, infl, w, rate = ctx.saved_tensors
        floor, cap = ctx.limits
        g_ret, g_infl = torch.zeros_like(ret), torch.zeros_like(infl)
        g_w, g_rate = torch.zeros_like(w), torch.zeros_like(rate)
        later = torch.zeros_like(spend0)          # what next year's rule adds to this year's spending
        for t in reversed(range(ret.shape[1])):
            nav, s = navs[:, t], spends[:, t]
            before = spends[:, t - 1] if t else spend0
            raw = w * before * (1 + infl[t]) + (1 - w) * rate * nav
            g_ret[:, t] = g_nav * (nav - s)
            g_keep = g_nav * (1 + ret[:, t])
            g_s = g_spend[:, t] + later - g_keep
            low, high = raw < floor * nav, raw > cap * nav
            g_raw = torch.where(low | high, torch.zeros_like(g_s), g_s)
            g_w = g_w + (g_raw * (before * (1 + infl[t]) - rate * nav)).sum()
            g_rate = g_rate + (g_raw * (1 - w) * nav).sum()
            g_infl[t] = (g_raw * w * before).sum()
            later = g_raw * w * (1 + infl[t])
            g_nav = g_keep + g_raw * (1 - w) * rate + g_s * (low * floor + high * cap)
        return g_nav, later, g_ret, g_infl, g_w, g_rate, None, None


class CarryWaterfall(Function):
    """Carried interest on a closed private fund.

    The investors first get back `paid_in` and a preferred return `pref` a year on it.
    style "soft": after that the manager takes the share `catch_up` of each further dollar until he
    has `carry` of the whole gain, and `carry` of every dollar from there on;
    style "hard": the manager takes `carry` of what exceeds the preferred return, nothing more.

    proceeds, paid_in, years have one shape; pref is a scalar tensor.  carry < catch_up <= 1.
    """

    @staticmethod
    def forward(ctx, proceeds, paid_in, years, pref, style="soft", carry=0.2, catch_up=1.0):
        gain = proceeds - paid_in
        growth = (1 + pref) ** years
        hurdle = paid_in * (growth - 1)
        over = (gain - hurdle).clamp(min=0)
        ctx.save_for_backward(gain, hurdle, growth, paid_in, years, pref)
        ctx.terms = style, carry, catch_up
        if style == "hard":
            return carry * over
        if style != "soft":
            raise ValueError(f"unknown style {style!r}")
        return torch.minimum(catch_up * over, carry * gain.clamp(min=0))

    @staticmethod
    def backward(ctx, g):
        gain, hurdle, growth, paid_in, years, pref = ctx.saved_tensors
        style, carry, catch_up = ctx.terms
        above = gain > hurdle
        zero = torch.zeros_like(g)
        if style == "hard":
            g_gain = torch.where(above, carry * g, zero)
            g_hurdle = -g_gain
        else:
            full = gain >= hurdle / (1 - carry)
            g_gain = torch.where(full, carry * g, torch.where(above, catch_up * g, zero))
            g_hurdle = torch.where(above & ~full, -catch_up * g, zero)
        g_paid = g_hurdle * (growth - 1) - g_gain
        g_years = g_hurdle * paid_in * growth * torch.log1p(pref)
        g_pref = (g_hurdle * paid_in * years * growth / (1 + pref)).sum()
        return g_gain, g_paid, g_years, g_pref, None, None, None


class PooledUnits(Function):
    """Closing value of the named funds that share one unitised pool.

    Each year: gifts buy units at the opening unit value u, the pool earns `ret`, and `payout` dollars
    per unit are distributed, u' = u (1 + ret) - payout.  The fraction ``plough`` of a fund's
    distribution buys further units at u', the rest is spent.

    unit0 scalar tensor; ret, payout: (years,); gifts: (years, funds).  Returns (funds,).
    """

    @staticmethod
    def forward(ctx, unit0, ret, payout, gifts, plough=0.0):
        u = unit0
        held = torch.zeros_like(gifts[0])
        history = []
        for t in range(len(ret)):
            bought = held + gifts[t] / u
            after = u * (1 + ret[t]) - payout[t]
            history.append((u, after, bought))
            held = bought * (1 + plough * payout[t] / after)
            u = after
        us, afters, units = (torch.stack(h) for h in zip(*history))
        ctx.save_for_backward(ret, payout, gifts, us, afters, units, held)
        ctx.plough = plough
        return held * u

    @staticmethod
    def backward(ctx, g):
        ret, payout, gifts, us, afters, units, held = ctx.saved_tensors
        g_ret, g_payout = torch.zeros_like(ret), torch.zeros_like(payout)
        g_gifts = torch.zeros_like(gifts)
        g_held, g_after = g * afters[-1], (g * held).sum()
        for t in reversed(range(len(ret))):
            g_payout[t] = ctx.plough * (g_held * units[t]).sum() / afters[t] - g_after
            g_held = g_held * (1 + ctx.plough * payout[t] / afters[t])
            g_ret[t] = g_after * us[t]
            g_gifts[t] = g_held / us[t]
            g_after = g_after * (1 + ret[t]) - (g_held * gifts[t]).sum() / us[t] ** 2
        return g_after, g_ret, g_payout, g_gifts, None
