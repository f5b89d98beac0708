"""Likelihoods and odds for match results."""
import math

import torch
from torch.autograd import Function

SQRT_2 = math.sqrt(2.0)
SQRT_2_OVER_PI = math.sqrt(2.0 / math.pi)


def _tau(lam, mu, rho, x, y):
    """Dixon-Coles low-score factor and its derivatives by lam, mu, rho."""
    zero, one = torch.zeros_like(lam), torch.ones_like(lam)
    s00, s01 = (x == 0) & (y == 0), (x == 0) & (y == 1)
    s10, s11 = (x == 1) & (y == 0), (x == 1) & (y == 1)
    tau = torch.where(s00, 1 - lam * mu * rho, one)
    tau = torch.where(s01, 1 + lam * rho, tau)
    tau = torch.where(s10, 1 + mu * rho, tau)
    tau = torch.where(s11, 1 - rho * one, tau)
    d_lam = torch.where(s00, -mu * rho, torch.where(s01, rho * one, zero))
    d_mu = torch.where(s00, -lam * rho, torch.where(s10, rho * one, zero))
    d_rho = torch.where(s00, -lam * mu, torch.where(s01, lam, torch.where(s10, mu, torch.where(s11, -one, zero))))
    return tau, d_lam, d_mu, d_rho


class DixonColesLoss(Function):
    """Weighted negative log-likelihood of football scores (Dixon & Coles 1997).

    attack, defence : (n_teams,) log strengths
    home_adv, rho   : 0-d tensors
    fixtures        : (M, 2) long, home and away team
    goals           : (M, 2) long
    neutral         : (M,) bool, True where the match was on neutral ground (no home advantage), or None
    weights         : (M,) time-decay weights, or None
    reduction       : "mean" (by the total weight), "sum" or "none"
    """

    @staticmethod
    def forward(ctx, attack, defence, home_adv, rho, fixtures, goals, neutral=None, weights=None, reduction="mean"):
        h, a = fixtures.unbind(1)
        x, y = goals.unbind(1)
        at_home = torch.ones_like(h, dtype=attack.dtype) if neutral is None else (~neutral).to(attack.dtype)
        log_lam = attack[h] - defence[a] + home_adv * at_home
        log_mu = attack[a] - defence[h]
        lam, mu = log_lam.exp(), log_mu.exp()
        tau, d_lam, d_mu, d_rho = _tau(lam, mu, rho, x, y)
        nll = lam + mu - x * log_lam - y * log_mu - tau.log()
        nll = nll + torch.lgamma(x.to(lam.dtype) + 1) + torch.lgamma(y.to(lam.dtype) + 1)
        w = torch.ones_like(nll) if weights is None else weights
        if reduction == "mean":
            scale = w / w.sum()
        else:
            scale = w
        ctx.save_for_backward(lam - x - d_lam * lam / tau, mu - y - d_mu * mu / tau, -d_rho / tau, scale, h, a)
        ctx.n_teams, ctx.reduction = attack.shape[0], reduction
        out = nll * scale
        return out if reduction == "none" else out.sum()

    @staticmethod
    def backward(ctx, grad_out):
        r_home, r_away, r_rho, scale, h, a = ctx.saved_tensors
        g = grad_out * scale
        g_home, g_away = g * r_home, g * r_away
        grad_attack = g.new_zeros(ctx.n_teams).index_add_(0, h, g_home).index_add_(0, a, g_away)
        grad_defence = g.new_zeros(ctx.n_teams).index_add_(0, a, -g_home).index_add_(0, h, -g_away)
        grad_home_adv = g_home.sum()
        return grad_attack, grad_defence, grad_home_adv, (g * r_rho).sum(), None, None, None, None, None


class TeamProbitWin(Function):
    """log P(first team beats second), TrueSkill-like; rosters (B, 2, K) of player ids, padded with -1."""

    @staticmethod
    def forward(ctx, skill, log_sigma, beta, rosters):
        present = (rosters >= 0).to(skill.dtype)
        ids = rosters.clamp(min=0)
        sign = skill.new_tensor([1.0, -1.0])[None, :, None]
        var = (2.0 * log_sigma).exp()
        margin = (skill[ids] * present * sign).sum((1, 2))
        count = present.sum((1, 2))
        c = ((var[ids] * present).sum((1, 2)) + count * beta**2).sqrt()
        z = margin / c
        ctx.save_for_backward(z, c, count, var, beta, present, ids)
        return torch.special.log_ndtr(z)

    @staticmethod
    def backward(ctx, grad_out):
        z, c, count, var, beta, present, ids = ctx.saved_tensors
        g_z = grad_out * SQRT_2_OVER_PI / torch.special.erfcx(-z / SQRT_2)
        g_c2 = -0.5 * g_z * z / c**2
        sign = z.new_tensor([1.0, -1.0])[None, :, None]
        flat = ids.reshape(-1)
        g_skill = ((g_z / c)[:, None, None] * sign * present).reshape(-1)
        g_var = (g_c2[:, None, None] * present).reshape(-1)
        grad_skill = torch.zeros_like(var).index_add_(0, flat, g_skill)
        grad_var = torch.zeros_like(var).index_add_(0, flat, g_var)
        return grad_skill, grad_var * 2.0 * var, (g_c2 * count).sum() * 2.0 * beta, None


class ParimutuelOdds(Function):
    @staticmethod
    def forward(ctx, stakes, takeout, runner, race_of_runner, min_dividend):
        pool = stakes.new_zeros(race_of_runner.shape[0]).index_add_(0, runner, stakes)
        race_pool = stakes.new_zeros(takeout.shape[0]).index_add_(0, race_of_runner, pool)
        backed = pool > 0
        safe = torch.where(backed, pool, torch.ones_like(pool))
        gross = race_pool[race_of_runner] / safe
        odds = (1 - takeout)[race_of_runner] * gross
        live = backed & (odds > min_dividend)
        ctx.save_for_backward(takeout, runner, race_of_runner, safe, gross, live)
        return torch.where(backed, odds.clamp(min=min_dividend), torch.zeros_like(odds))

    @staticmethod
    def backward(ctx, grad_odds):
        takeout, runner, race, safe, gross, live = ctx.saved_tensors
        g = torch.where(live, grad_odds, torch.zeros_like(grad_odds))
        g_takeout = torch.zeros_like(takeout).index_add_(0, race, -g * gross)
        g_gross = g * (1 - takeout)[race]
        g_race_pool = torch.zeros_like(takeout).index_add_(0, race, g_gross / safe)
        g_pool = g_race_pool[race] - g_gross * gross / safe
        return g_pool[runner], g_takeout, None, None, None


def parimutuel_odds(stakes, takeout, runner, race_of_runner, min_dividend=1.0):
    return ParimutuelOdds.apply(stakes, takeout, runner, race_of_runner, min_dividend)
