import torch
import torch.nn as nn

EPS = 1e-6


class PoissonMultinomialLoss(torch.autograd.Function):
    """Coverage-track loss: a multinomial term for the shape along the sequence, a Poisson term for the total.

    rate, count: ``[batch, length, tracks]`` (rate > 0, count >= 0; counts get no gradient)
    bins: optional bool ``[batch, length]``; unscored bins (assembly gaps, blacklisted regions) are False.
    total_weight: weight of the Poisson term.
    reduction: "mean", "sum", or "none" (``[batch, tracks]``).
    """

    @staticmethod
    def forward(ctx, rate, count, bins=None, total_weight=1.0, reduction="mean"):
        if bins is None:
            bins = torch.ones(rate.shape[:2], dtype=torch.bool, device=rate.device)
        m = bins.unsqueeze(-1).to(rate.dtype)
        n = m.sum(1).clamp(min=1)
        r = (rate + EPS) * m
        y = count * m
        s, t = r.sum(1), y.sum(1)
        poisson = s - t * torch.log(s)
        shape = -(y * torch.log((rate + EPS) / s.unsqueeze(1))).sum(1)
        loss = (total_weight * poisson + shape) / n
        ctx.save_for_backward(rate, y, s, t, m, n)
        ctx.total_weight = total_weight
        ctx.reduction = reduction
        if reduction == "mean":
            return loss.mean()
        return loss.sum() if reduction == "sum" else loss

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        rate, y, s, t, m, n = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad = grad / s.numel()
        # The total's log-likelihood cancels against the normaliser of the shape term:
        #   d/dr [s - t log s] + d/dr [t log s - y log r] = 1 - y / r
        d = (1.0 - y / (rate + EPS)) * m
        d_rate = d * (grad / n).unsqueeze(1)
        return d_rate, None, None, None, None


class ExonSpanPool(torch.autograd.Function):
    # x [B, L, C]; starts/ends [G] half-open, may overlap, nest, repeat or be empty
    @staticmethod
    def forward(x, starts, ends, reduce, log):
        c = torch.cat([torch.zeros_like(x[:, :1]), x.cumsum(1)], dim=1)
        out = c[:, ends] - c[:, starts]
        if reduce == "mean":
            out = out / (ends - starts).clamp(min=1).to(x.dtype)[:, None]
        return torch.log1p(out) if log else out

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, starts, ends, ctx.reduce, ctx.log = inputs
        ctx.length = x.shape[1]
        ctx.save_for_backward(starts, ends, output)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        starts, ends, out = ctx.saved_tensors
        if ctx.log:
            g = g * torch.exp(-out)
        if ctx.reduce == "mean":
            g = g / (ends - starts).clamp(min=1).to(g.dtype)[:, None]
        edge = g.new_zeros(g.shape[0], ctx.length + 1, g.shape[2])
        edge.index_add_(1, starts, g)
        edge.index_add_(1, ends, -g)
        return edge.cumsum(1)[:, : ctx.length], None, None, None, None


class StrandMerge(torch.autograd.Function):
    """Mix the prediction on a sequence with the one on its reverse complement; ``order[c]`` is the reverse pass's column
    for track ``c`` (a permutation, from the track sheet)."""

    @staticmethod
    def forward(ctx, fwd, rev, mix, order):
        back = rev.flip(1)[..., order]
        w = torch.sigmoid(mix)
        ctx.save_for_backward(fwd, back, w, order)
        return (1 - w) * fwd + w * back

    @staticmethod
    def backward(ctx, g):
        fwd, back, w, order = ctx.saved_tensors
        d_fwd = d_rev = d_mix = None
        if ctx.needs_input_grad[0]:
            d_fwd = (1 - w) * g
        if ctx.needs_input_grad[1]:
            d_rev = (w * g).flip(1)[..., order]
        if ctx.needs_input_grad[2]:
            d_mix = (g * (back - fwd)).sum((0, 1)) * w * (1 - w)
            d_mix = d_mix.sum_to_size(w.shape)
        return d_fwd, d_rev, d_mix, None


class TrackHead(nn.Module):
    """Softplus head with strand averaging at test time."""

    def __init__(self, dim, tracks, order=None):
        super().__init__()
        self.proj = nn.Linear(dim, tracks)
        self.mix = nn.Parameter(torch.zeros(tracks))
        self.register_buffer(
            "order", torch.arange(tracks) if order is None else torch.as_tensor(order)
        )

    def forward(self, h, h_rc=None):
        y = nn.functional.softplus(self.proj(h))
        if h_rc is None:
            return y
        return StrandMerge.apply(y, nn.functional.softplus(self.proj(h_rc)), self.mix, self.order)


def gene_expression(tracks, gene_spans, reduce="sum", log=True):
    starts, ends = gene_spans.unbind(-1)
    return ExonSpanPool.apply(tracks, starts, ends, reduce, log)


def coverage_loss_fn(rate, count, bins=None, *, total_weight=1.0, reduction="mean"):
    return PoissonMultinomialLoss.apply(rate, count, bins, total_weight, reduction)
