"""Parameterisations and losses of the diffusion decoder (learned noise schedule)."""

import torch
import torch.nn as nn

SCHEDULE = {"lam_max": 9.0, "lam_min": -7.0}
KINDS = {"x0": 0, "eps": 1, "v": 2}


def _per_sample(c, like):
    return c.reshape(c.shape + (1,) * (like.dim() - c.dim()))


def make_to_clean(kind: str):
    """Build the map from a network output to the clean sample.

    ``kind`` says what the network predicts: "x0", "eps" or "v".  The returned callable takes
    ``(x_t, pred, lam)`` with ``lam`` the log-SNR of each sample (variance preserving).
    """
    code = KINDS[kind]

    def to_clean(x_t, pred, lam):
        return ToClean.apply(x_t, pred, lam, code)

    return to_clean


class ToClean(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x_t, pred, lam, code):
        alpha = _per_sample(torch.sigmoid(lam).sqrt(), x_t)
        sigma = _per_sample(torch.sigmoid(-lam).sqrt(), x_t)
        ctx.save_for_backward(x_t, pred, alpha, sigma)
        ctx.code = code
        if code == 0:
            return pred.clone()
        if code == 1:
            return (x_t - sigma * pred) / alpha
        return alpha * x_t - sigma * pred

    @staticmethod
    def backward(ctx, g):
        x_t, pred, alpha, sigma = ctx.saved_tensors
        need_x, need_lam, need_pred = ctx.needs_input_grad[:3]
        g_x = g_pred = g_lam = None
        if ctx.code == 0:
            return None, g if need_pred else None, None, None
        if ctx.code == 1:
            if need_x:
                g_x = g / alpha
            if need_pred:
                g_pred = -g * sigma / alpha
            if need_lam:
                # x0 = x / alpha - exp(-lam / 2) * eps
                local = 0.5 * (sigma / alpha) * (pred - sigma * x_t)
        else:
            if need_x:
                g_x = g * alpha
            if need_pred:
                g_pred = -g * sigma
            if need_lam:
                local = 0.5 * alpha * sigma * (sigma * x_t + alpha * pred)
        if need_lam:
            g_lam = (g * local).flatten(1).sum(1)
        return g_x, g_pred, g_lam, None


class KarrasPreconditioning(torch.autograd.Function):
    """D = c_skip(sigma) * x + c_out(sigma) * F.

    Args:
        x: noisy input, (B, C, H, W).
        f: raw network output, same shape.
        sigma: noise level, (B,).
        sd: standard deviation of the data, one per channel (C,).
    """

    @staticmethod
    def forward(ctx, x, f, sigma, sd):
        s = sigma.view(-1, 1, 1, 1)
        d = sd.view(1, -1, 1, 1)
        tot = s * s + d * d
        c_skip = d * d / tot
        c_out = s * d / tot.sqrt()
        ctx.save_for_backward(x, f, s, d, tot)
        return c_skip * x + c_out * f

    @staticmethod
    def backward(ctx, g):
        x, f, s, d, tot = ctx.saved_tensors
        gx = g * (d * d / tot)
        gf = g * (s * d / tot.sqrt())
        skip_term = 2 * s * d / tot**2
        out_term = tot**-1.5
        g_sigma = g * (-skip_term * d * x + d * out_term * f)
        g_sd = g * (skip_term * s * x + s**3 * out_term * f)
        return gx, gf, g_sigma.sum((1, 2, 3)), g_sd.sum((0, 2, 3))


class MinSnrLoss(torch.autograd.Function):
    """Squared error with min-SNR weights.

    The weight of a sample is min(snr, gamma) / snr for "eps" targets, min(snr, gamma) for "x0" and
    min(snr, gamma) / (snr + 1) for "v".  ``keep`` marks the elements that count; a sample is the mean of
    its own kept elements and the loss is the mean of the samples that keep any.  The schedule is a
    constant here: no gradient goes to ``lam``.
    """

    @staticmethod
    def forward(ctx, pred, target, lam, keep, gamma, kind):
        snr = lam.exp()
        w = snr.clamp(max=gamma)
        if kind == "eps":
            w = w / snr
        elif kind == "v":
            w = w / (snr + 1)
        m = keep.to(pred.dtype).expand_as(pred)
        n = m.flatten(1).sum(1)
        per = w / n.clamp(min=1) / (n > 0).sum().clamp(min=1)
        res = (pred - target) * m
        coef = _per_sample(per, pred) * res
        ctx.save_for_backward(coef)
        return (coef * res).sum()

    @staticmethod
    def backward(ctx, g):
        (coef,) = ctx.saved_tensors
        d = 2 * g * coef
        return d, -d, None, None, None, None


class LearnedSchedule(nn.Module):
    """Monotone log-SNR in t, endpoints fixed."""

    def __init__(self, knots=16):
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(knots))

    def forward(self, t):
        edge = torch.cumsum(torch.softmax(self.raw, 0), 0)
        edge = torch.cat((edge.new_zeros(1), edge))
        pos = t * (len(edge) - 1)
        i = pos.long().clamp(max=len(edge) - 2)
        frac = edge[i] + (pos - i) * (edge[i + 1] - edge[i])
        return SCHEDULE["lam_max"] + frac * (SCHEDULE["lam_min"] - SCHEDULE["lam_max"])


def train_step(net, schedule, x, keep, opt, kind="v", gamma=5.0):
    t = torch.rand(x.shape[0])
    lam = schedule(t)
    alpha, sigma = torch.sigmoid(lam).sqrt(), torch.sigmoid(-lam).sqrt()
    noise = torch.randn_like(x)
    x_t = _per_sample(alpha, x) * x + _per_sample(sigma, x) * noise
    clean = make_to_clean(kind)(x_t, net(x_t, lam), lam)
    loss = MinSnrLoss.apply(clean, x, lam.detach(), keep, gamma, "x0")
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()
