import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable

LOG_2PI = math.log(2 * math.pi)
LOG_4 = math.log(4.0)


def lengths_to_mask(lengths, max_len):
    return torch.arange(max_len, device=lengths.device)[None, :] < lengths[:, None]


class SoftWindow(Function):
    """Gaussian window over the characters: returns (window (B, C), phi (B, U))."""

    @staticmethod
    def forward(ctx, alpha, beta, kappa, chars, char_mask=None):
        U = chars.shape[1]
        u = torch.arange(U, device=chars.device, dtype=chars.dtype)
        dist = kappa[:, :, None] - u  # (B, K, U)
        bump = torch.exp(-beta[:, :, None] * dist**2)
        phi = torch.einsum("bk,bku->bu", alpha, bump)
        if char_mask is not None:
            phi = phi * char_mask.to(phi.dtype)
        window = torch.einsum("bu,buc->bc", phi, chars)
        ctx.save_for_backward(alpha, beta, dist, bump, phi, chars)
        return window, phi

    @staticmethod
    def backward(ctx, grad_window, grad_phi):
        alpha, beta, dist, bump, phi, chars = ctx.saved_tensors
        grad_chars = phi[:, :, None] * grad_window[:, None, :]
        g = torch.einsum("bc,buc->bu", grad_window, chars) + grad_phi
        gb = g[:, None, :] * bump
        grad_alpha = gb.sum(-1)
        gb = gb * alpha[:, :, None]
        grad_beta = -(gb * dist**2).sum(-1)
        grad_kappa = -2 * beta * (gb * dist).sum(-1)
        return grad_alpha, grad_beta, grad_kappa, grad_chars, None


class BivariateStrokeNLL(Function):
    """Negative log-likelihood of pen offsets under a mixture of correlated bivariate normals.

    Args:
        offsets:   (B, T, 2) pen displacements.
        logits:    (B, T, K) unnormalised mixture weights.
        mu:        (B, T, K, 2) component means.
        log_sigma: (B, T, K, 2) log standard deviations.
        rho_raw:   (B, T, K) correlations before ``tanh``.
        mask:      (B, T) bool, True at real steps; None for all.
        reduction: "none" -> (B, T), zero at padding; "sum"; "mean" over the real steps.

    Every real-valued input gets a gradient. ``1 - rho**2`` is formed as ``sech(rho_raw)**2`` so that
    nearly degenerate components stay finite.
    """

    @staticmethod
    def forward(ctx, offsets, logits, mu, log_sigma, rho_raw, mask=None, reduction="mean"):
        inv_sigma = torch.exp(-log_sigma)
        z = (offsets[..., None, :] - mu) * inv_sigma
        z1, z2 = z.unbind(-1)
        rho = torch.tanh(rho_raw)
        log_q = LOG_4 - 2 * rho_raw.abs() - 2 * torch.log1p(torch.exp(-2 * rho_raw.abs()))
        inv_q = torch.exp(-log_q)
        quad = ((z1 - rho * z2) ** 2) * inv_q + z2**2  # Z / (1 - rho^2)
        log_comp = -LOG_2PI - log_sigma.sum(-1) - 0.5 * log_q - 0.5 * quad
        joint = F.log_softmax(logits, dim=-1) + log_comp
        log_lik = torch.logsumexp(joint, dim=-1)
        nll = -log_lik
        if mask is None:
            mask = torch.ones_like(nll, dtype=torch.bool)
        nll = torch.where(mask, nll, torch.zeros_like(nll))
        count = mask.sum().clamp(min=1)
        resp = torch.exp(joint - log_lik[..., None])
        ctx.save_for_backward(
            resp, torch.softmax(logits, -1), z1, z2, rho, inv_q, quad, inv_sigma, mask, count
        )
        ctx.reduction = reduction
        if reduction == "none":
            return nll
        total = nll.sum()
        return total / count if reduction == "mean" else total

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        resp, prior, z1, z2, rho, inv_q, quad, inv_sigma, mask, count = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_out = grad_out / count
        g = torch.where(mask, grad_out, torch.zeros_like(resp[..., 0]))[..., None]
        r = g * resp
        e1 = (z1 - rho * z2) * inv_q
        e2 = (z2 - rho * z1) * inv_q
        e = torch.stack((e1, e2), dim=-1)
        z = torch.stack((z1, z2), dim=-1)

        g_mu = -r[..., None] * e * inv_sigma
        g_log_sigma = r[..., None] * (1 - z * e)
        g_rho_raw = -r * (rho + z1 * z2 - rho * quad)
        g_logits = g * (prior - resp)
        g_offsets = -g_mu.sum(-2)
        return g_offsets, g_logits, g_mu, g_log_sigma, g_rho_raw, None, None


class PenLiftBCE(Function):
    @staticmethod
    def forward(logits, target, lengths, pos_weight, reduction):
        mask = lengths_to_mask(lengths, logits.shape[1]).to(logits.dtype)
        per_step = pos_weight * target * F.softplus(-logits) + (1 - target) * F.softplus(logits)
        per_step = per_step * mask
        if reduction == "none":
            return per_step
        if reduction == "sum":
            return per_step.sum()
        return per_step.sum() / mask.sum()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, lengths, ctx.pos_weight, ctx.reduction = inputs
        ctx.save_for_backward(logits, target, lengths)

    @staticmethod
    def backward(ctx, grad_out):
        logits, target, lengths = ctx.saved_tensors
        mask = lengths_to_mask(lengths, logits.shape[1]).to(logits.dtype)
        p = torch.sigmoid(logits)
        d = (1 - target) * p - ctx.pos_weight * target * (1 - p)
        if ctx.reduction == "mean":
            d = d / d.numel()
        return grad_out * d * mask, None, None, None, None


class StrokeHead(nn.Module):
    def __init__(self, hidden, n_mix=20, pen_weight=4.0):
        super().__init__()
        self.n_mix, self.pen_weight = n_mix, pen_weight
        self.proj = nn.Linear(hidden, 6 * n_mix + 1)

    def loss(self, h, offsets, pen, lengths):
        B, T, _ = h.shape
        out = self.proj(h)
        pen_logit, rest = out[..., 0], out[..., 1:]
        logits, rho, mu, ls = torch.split(
            rest, [self.n_mix, self.n_mix, 2 * self.n_mix, 2 * self.n_mix], -1
        )
        mask = lengths_to_mask(lengths, T)
        nll = BivariateStrokeNLL.apply(
            offsets, logits, mu.reshape(B, T, -1, 2), ls.reshape(B, T, -1, 2), rho, mask, "mean"
        )
        return nll + PenLiftBCE.apply(pen_logit, pen, lengths, self.pen_weight, "mean")


class WindowLayer(nn.Module):
    def __init__(self, hidden, n_window=10):
        super().__init__()
        self.lin = nn.Linear(hidden, 3 * n_window)

    def forward(self, h, kappa_prev, chars, char_mask=None):
        a, b, dk = torch.exp(self.lin(h)).chunk(3, dim=-1)
        kappa = kappa_prev + dk
        window, phi = SoftWindow.apply(a, b, kappa, chars, char_mask)
        return window, phi, kappa
