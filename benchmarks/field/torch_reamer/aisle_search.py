"""Losses of the web shop's aisle search.

Result pages differ in length, so everything comes padded. `valid` marks the real products.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import FunctionCtx


def _threshold(scores, facings, valid, tau, rounds=80):
    """The level at which the selection adds up to the facings, by bisection."""
    with torch.no_grad():
        wide = tau * 40
        low = scores.masked_fill(~valid, torch.inf).amin(-1) - wide
        high = scores.masked_fill(~valid, -torch.inf).amax(-1) + wide
        for _ in range(rounds):
            middle = (low + high) / 2
            many = (torch.sigmoid((scores - middle[:, None]) / tau) * valid).sum(-1) > facings
            low, high = torch.where(many, middle, low), torch.where(many, high, middle)
        return (low + high) / 2


class FacingSelect(torch.autograd.Function):
    r"""Soft choice of the products that fit on a shelf.

    .. math:: p_i = \sigma((s_i - \nu) / \tau), \qquad \sum_{i\ \mathrm{valid}} p_i = m

    Parameters
    ----------
    scores : Tensor, (shelves, n)
    facings : Tensor, (shelves,)
        m, real, strictly between zero and the shelf's number of valid products.
    valid : bool Tensor, (shelves, n)
        At least one True a shelf.
    tau : float

    Returns
    -------
    p (shelves, n), zero for padding, and the threshold nu (shelves,).
    """

    @staticmethod
    def forward(scores, facings, valid, tau=1.0):
        nu = _threshold(scores, facings, valid, tau)
        p = torch.sigmoid((scores - nu[:, None]) / tau) * valid
        nu = nu + tau * (p.sum(-1) - facings) / (p * (1 - p)).sum(-1).detach()
        return torch.sigmoid((scores - nu[:, None]) / tau) * valid, nu

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.tau = inputs[3] if len(inputs) > 3 else 1.0
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx, g_p, g_nu):
        (p,) = ctx.saved_tensors
        bend = p * (1 - p)
        total = bend.sum(-1)
        direct = g_p * bend / ctx.tau
        level = g_nu - direct.sum(-1)
        g_scores = direct + bend * (level / total)[:, None]
        return g_scores, -ctx.tau * level / total, None, None


class EyeLineUtility(torch.autograd.Function):
    """Expected margin when attention fades with the (smooth) rank.

    The smooth rank of a product is 1 + the sum over the other valid products of sigmoid((their score - its score) / tau), and its
    margin counts exp(-(rank - 1) / reach). Returns one number per page.

    scores, margin: (pages, n); valid: bool (pages, n); tau, reach: floats
    """

    @staticmethod
    def forward(ctx: FunctionCtx, scores: Tensor, margin: Tensor, valid: Tensor, tau: float, reach: float) -> Tensor:
        n = scores.shape[-1]
        beat = torch.sigmoid((scores.unsqueeze(-2) - scores.unsqueeze(-1)) / tau)   # [page, i, j]: j over i
        off = ~torch.eye(n, dtype=torch.bool, device=scores.device)
        rank0 = (beat * (off & valid.unsqueeze(-2))).sum(-1)
        attention = torch.exp(-rank0 / reach) * valid
        ctx.save_for_backward(margin, valid, beat, attention)
        ctx.tau, ctx.reach = tau, reach
        return (margin * attention).sum(-1)

    @staticmethod
    def backward(ctx: FunctionCtx, grad: Tensor):
        margin, valid, beat, attention = ctx.saved_tensors
        grad = grad.unsqueeze(-1)
        g_rank = -grad * margin * attention / ctx.reach
        pair = g_rank.unsqueeze(-1) * beat * (1 - beat) / ctx.tau
        g_scores = (pair.sum(-2) - pair.sum(-1)) * valid
        return g_scores, grad * attention, None, None, None


class ClickDebiasLoss(torch.autograd.Function):
    """Click loss corrected for where on the page a product stood.

    A click at slot p weighs c = 1 / max(propensity[p], floor); per product the loss is
    click * c * softplus(-z) + (1 - click * c) * softplus(z), averaged over the products shown. slot == -1 is padding.

    :param z: logits of any shape; clicks and slot look the same
    :param propensity: (slots,) learned chance that a slot is looked at at all
    """

    @staticmethod
    def forward(ctx, z, clicks, slot, propensity, floor):
        shown = slot >= 0
        z = z.masked_fill(~shown, 0)
        looked = propensity[slot.clamp(min=0)]
        weight = clicks / looked.clamp(min=floor)
        loss = weight * F.softplus(-z) + (1 - weight) * F.softplus(z)
        count = shown.sum().clamp(min=1)
        ctx.save_for_backward(z, clicks, slot, propensity, looked, count)
        ctx.floor = floor
        return torch.where(shown, loss, torch.zeros_like(loss)).sum() / count

    @staticmethod
    def backward(ctx, grad):
        z, clicks, slot, propensity, looked, count = ctx.saved_tensors
        shown = slot >= 0
        each = grad / count * shown
        held = looked.clamp(min=ctx.floor)
        g_z = g_clicks = g_prop = None
        if ctx.needs_input_grad[0]:
            g_z = each * (torch.sigmoid(z) - clicks / held)
        if ctx.needs_input_grad[1]:
            g_clicks = -each * z / held
        if ctx.needs_input_grad[3]:
            per = each * clicks * z / held.square() * (looked >= ctx.floor)
            g_prop = torch.zeros_like(propensity).index_add(0, slot.clamp(min=0).flatten(), per.flatten())
        return g_z, g_clicks, None, g_prop, None


class SearchObjective(torch.nn.Module):
    """Click loss minus a share of the expected margin."""

    def __init__(self, slots: int, floor: float = 0.05, tau: float = 0.5, reach: float = 4.0, share: float = 0.1):
        super().__init__()
        self.propensity = torch.nn.Parameter(1.0 / torch.arange(1, slots + 1).float().sqrt())
        self.floor, self.tau, self.reach, self.share = floor, tau, reach, share

    def forward(self, scores: Tensor, clicks: Tensor, slot: Tensor, margin: Tensor) -> Tensor:
        valid = slot >= 0
        clicked = ClickDebiasLoss.apply(scores, clicks, slot, self.propensity, self.floor)
        earned = EyeLineUtility.apply(scores, margin, valid, self.tau, self.reach)
        return clicked - self.share * earned.mean()


def fill_shelf(scores, facings, valid=None, tau=0.25):
    """Choice probabilities only."""
    if valid is None:
        valid = torch.ones_like(scores, dtype=torch.bool)
    facings = torch.as_tensor(facings, dtype=scores.dtype).expand(scores.shape[0])
    return FacingSelect.apply(scores, facings, valid, tau)[0]
