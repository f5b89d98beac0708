"""Estimation kernels for the regional travel demand model."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable


class Survey(NamedTuple):
    """Stated-preference answers, one row per answered card.

    Attributes:
        person: (N,) int64, respondent of every card, in 0..n_people-1.
        chosen: (N,) int64, chosen alternative.
        n_people: number of respondents.
    """

    person: torch.Tensor
    chosen: torch.Tensor
    n_people: int


def halton(n, base):
    out = torch.zeros(n, dtype=torch.float64)
    for i in range(n):
        f, r, k = 1.0, 0.0, i + 1
        while k > 0:
            f /= base
            r += f * (k % base)
            k //= base
        out[i] = r
    return out


class RandomRegret(torch.autograd.Function):
    """Systematic regret of each alternative (Chorus 2010).

    R_i = sum_{j != i} sum_m ln(1 + exp(beta_m (x_jm - x_im)))

    Args:
        x: (B, J, M) attributes.
        beta: (M,) taste parameters, any sign.
        avail: (B, J) bool; missing alternatives cause no regret and get 0.

    Returns:
        (B, J) regrets.
    """

    @staticmethod
    def forward(x, beta, avail):
        diff = x[:, None, :, :] - x[:, :, None, :]  # [b, i, j] = x_j - x_i
        pair = avail[:, :, None] & avail[:, None, :]
        pair = pair & ~torch.eye(x.shape[1], dtype=torch.bool)
        return (F.softplus(beta * diff) * pair[..., None]).sum((2, 3))

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, beta, avail = ctx.saved_tensors
        diff = x[:, None, :, :] - x[:, :, None, :]
        pair = avail[:, :, None] & avail[:, None, :]
        # the diagonal has diff == 0 and cancels in both sums below
        s = torch.sigmoid(beta * diff) * pair[..., None] * grad[:, :, None, None]
        g_beta = (s * diff).sum((0, 1, 2))
        g_x = beta * (s.sum(1) - s.sum(2))
        return g_x, g_beta, None


class PanelSimulatedLL(torch.autograd.Function):
    """Simulated log-likelihood of a mixed logit.

    Each respondent keeps the same tastes on all of his cards, so that the
    product over the cards is averaged over the draws:

    LL_p = ln (1/R) sum_r prod_{n in p} P_n^r(chosen_n)

    Args:
        util: (N, R, J) utilities by card, draw, alternative.
        chosen: (N,) int64.
        person: (N,) int64, need not be sorted.
        n_people: int; everybody has answered a card or more.

    Returns:
        (n_people,) log-likelihoods.
    """

    @staticmethod
    def forward(util, chosen, person, n_people):
        n, r, j = util.shape
        logp = torch.log_softmax(util, -1)
        lp = logp.gather(2, chosen.view(n, 1, 1).expand(n, r, 1)).squeeze(2)
        by_person = util.new_zeros(n_people, r).index_add(0, person, lp)
        return torch.logsumexp(by_person, 1) - torch.log(util.new_tensor(float(r)))

    @staticmethod
    def setup_context(ctx, inputs, output):
        util, chosen, person, _ = inputs
        ctx.save_for_backward(util, chosen, person)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        util, chosen, person = ctx.saved_tensors
        n, r, j = util.shape
        p = torch.softmax(util, -1)
        hot = F.one_hot(chosen, j).to(util.dtype)[:, None, :]
        lp = (p * hot).sum(-1).log()
        weight = torch.softmax(lp, dim=1)
        g = grad[person][:, None] * weight
        return g[..., None] * (hot - p), None, None, None


class InterveningOpportunities(torch.autograd.Function):
    """Schneider's intervening opportunities trip distribution.

    T_ij = O_i (exp(-L_i V_ij) - exp(-L_i (V_ij + W_j)))

    with V_ij the opportunities that are met before zone j when one leaves i.

    Args:
        trips: (I,) productions O.
        opp: (J,) opportunities W.
        accept: (I,) or () acceptance rate L.
        order: (I, J) int64; row i lists the zones from the nearest on.

    Returns:
        (I, J) trip table.
    """

    @staticmethod
    def forward(ctx, trips, opp, accept, order):
        rate = accept.expand_as(trips)
        w = opp[order]
        upto = w.cumsum(1)
        far = torch.exp(-rate[:, None] * upto)
        near = torch.exp(-rate[:, None] * (upto - w))
        share_sorted = near - far
        share = torch.empty_like(share_sorted).scatter_(1, order, share_sorted)
        ctx.save_for_backward(trips, rate, order, near, far, upto, w, share)
        ctx.one_rate = accept.dim() == 0
        ctx.n_zones = opp.shape[0]
        return trips[:, None] * share

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        trips, rate, order, near, far, upto, w, share = ctx.saved_tensors
        g_trips = (grad * share).sum(1)

        g = grad.gather(1, order) * trips[:, None]
        a = g * far
        b = g * near
        g_rate = (a * upto - b * (upto - w)).sum(1)
        # w_k enters far of every zone from k on, near of those after k
        tail_a = a.flip(1).cumsum(1).flip(1)
        tail_b = b.flip(1).cumsum(1).flip(1) - b
        g_w = rate[:, None] * (tail_a - tail_b)
        g_opp = g_w.new_zeros(ctx.n_zones).index_add(0, order.reshape(-1), g_w.reshape(-1))
        if ctx.one_rate:
            g_rate = g_rate.sum()
        return g_trips, g_opp, g_rate, None


def survey_loss(util_of, theta, survey: Survey, draws: int = 50):
    z = halton(draws, 3).mul(2).sub(1).erfinv()
    util = util_of(theta, z)
    ll = PanelSimulatedLL.apply(util, survey.chosen, survey.person, survey.n_people)
    return -ll.mean()


def regret_logit(x, beta, avail, chosen):
    r = RandomRegret.apply(x, beta, avail)
    v = (-r).masked_fill(~avail, float("-inf"))
    return F.cross_entropy(v, chosen)
