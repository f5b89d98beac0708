"""Ops shared by the recogniser and the duration-based synthesiser."""
import torch
import torch.nn as nn
from torch import Tensor


def length_mask(lengths: Tensor, max_len: int) -> Tensor:
    return torch.arange(max_len, device=lengths.device)[None] < lengths[:, None]


# --------------------------------------------------------------------------
# transducer


def _lattice(lp_blank, lp_emit, T, U):
    """Forward and backward log variables of one utterance, (T, U + 1) each."""
    alpha = lp_blank.new_full((T, U + 1), float("-inf"))
    beta = torch.full_like(alpha, float("-inf"))
    alpha[0, 0] = 0.0
    for t in range(T):
        for u in range(U + 1):
            if t > 0:
                alpha[t, u] = torch.logaddexp(alpha[t, u], alpha[t - 1, u] + lp_blank[t - 1, u])
            if u > 0:
                alpha[t, u] = torch.logaddexp(alpha[t, u], alpha[t, u - 1] + lp_emit[t, u - 1])
    for t in reversed(range(T)):
        for u in reversed(range(U + 1)):
            if t == T - 1 and u == U:
                beta[t, u] = lp_blank[t, u]
                continue
            if t < T - 1:
                beta[t, u] = torch.logaddexp(beta[t, u], beta[t + 1, u] + lp_blank[t, u])
            if u < U:
                beta[t, u] = torch.logaddexp(beta[t, u], beta[t, u + 1] + lp_emit[t, u])
    return alpha, beta


class TransducerLossFunction(torch.autograd.Function):
    """RNN-T negative log likelihood.

    Shapes:
        log_probs: (B, T, U + 1, V) log probabilities of the joiner
        targets: (B, U) long, no blanks inside the first ``target_lengths``
        frame_lengths, target_lengths: (B,) long
        returns: (B,) one negative log likelihood each
    """

    @staticmethod
    def forward(ctx, log_probs, targets, frame_lengths, target_lengths, blank=0):
        B, T, U1, V = log_probs.shape
        losses = log_probs.new_zeros(B)
        grads = torch.zeros_like(log_probs)
        for b in range(B):
            t_len, u_len = int(frame_lengths[b]), int(target_lengths[b])
            lp = log_probs[b, :t_len, : u_len + 1]
            tgt = targets[b, :u_len]
            lp_blank = lp[..., blank]
            lp_emit = lp[:, :u_len].gather(-1, tgt[None, :, None].expand(t_len, -1, 1))[..., 0]
            alpha, beta = _lattice(lp_blank, lp_emit, t_len, u_len)
            ll = beta[0, 0]
            losses[b] = -ll
            nxt = torch.full_like(beta, float("-inf"))
            nxt[:-1] = beta[1:]
            nxt[-1, -1] = 0.0
            grads[b, :t_len, : u_len + 1, blank] = -torch.exp(alpha + lp_blank + nxt - ll)
            occupancy = -torch.exp(alpha[:, :-1] + lp_emit + beta[:, 1:] - ll)
            for u in range(u_len):
                grads[b, :t_len, u, tgt[u]] += occupancy[:, u]
        ctx.save_for_backward(grads)
        return losses

    @staticmethod
    def backward(ctx, grad_losses):
        (grads,) = ctx.saved_tensors
        return grads * grad_losses[:, None, None, None], None, None, None, None


# --------------------------------------------------------------------------
# feature normalisation


class UtteranceNormFunction(torch.autograd.Function):
    """Normalise every feature over the frames of its own utterance.

    ``x`` is (B, T, F) padded at the end, ``lengths`` (B,) counts real frames,
    ``gain`` and ``shift`` are (F,). Padded frames come out as zero.
    """

    @staticmethod
    def forward(ctx, x, lengths, gain, shift, eps=1e-5):
        mask = length_mask(lengths, x.shape[1])[..., None].to(x.dtype)
        n = lengths[:, None, None].to(x.dtype)
        mean = (x * mask).sum(1, keepdim=True) / n
        var = ((x - mean).square() * mask).sum(1, keepdim=True) / n
        rstd = (var + eps).rsqrt()
        xhat = (x - mean) * rstd * mask
        ctx.save_for_backward(xhat, rstd, mask, gain)
        return (xhat * gain + shift) * mask

    @staticmethod
    def backward(ctx, dy):
        xhat, rstd, mask, gain = ctx.saved_tensors
        dy = dy * mask
        dgain = (dy * xhat).sum((0, 1))
        dshift = dy.sum((0, 1))
        dxhat = dy * gain
        centre = dxhat.mean(1, keepdim=True)
        slope = (dxhat * xhat).mean(1, keepdim=True)
        dx = rstd * (dxhat - centre - xhat * slope) * mask
        return dx, None, dgain, dshift, None


class UtteranceNorm(nn.Module):
    def __init__(self, feats, eps=1e-5):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(feats))
        self.shift = nn.Parameter(torch.zeros(feats))
        self.eps = eps

    def forward(self, x, lengths):
        return UtteranceNormFunction.apply(x, lengths, self.gain, self.shift, self.eps)


# --------------------------------------------------------------------------
# durations to frames


class GaussianUpsampleFunction(torch.autograd.Function):
    # tokens to frames with one Gaussian for each token, centred in its span;
    # also hands back the alignment, for plots and the guided-attention term

    @staticmethod
    def forward(ctx, values, durations, ranges, frames):
        centre = durations.cumsum(-1) - 0.5 * durations
        t = torch.arange(frames, dtype=values.dtype, device=values.device) + 0.5
        off = t[None, :, None] - centre[:, None, :]
        logit = -0.5 * (off / ranges[:, None]).square() - ranges.log()[:, None]
        align = logit.softmax(-1)
        ctx.save_for_backward(values, ranges, off, align)
        return align @ values, align

    @staticmethod
    def backward(ctx, d_frames, d_align):
        values, ranges, off, align = ctx.saved_tensors
        d_values = align.transpose(1, 2) @ d_frames
        d_align = d_align + d_frames @ values.transpose(1, 2)
        d_logit = align * (d_align - (align * d_align).sum(-1, keepdim=True))
        s = ranges[:, None]
        d_ranges = (d_logit * (off.square() / s ** 3 - 1 / s)).sum(1)
        d_centre = (d_logit * off / s.square()).sum(1)
        d_durations = d_centre.flip(-1).cumsum(-1).flip(-1)
        return d_values, d_durations, d_ranges, None


class GaussianUpsampling(nn.Module):
    """values (B, N, D), durations (B, N) > 0 in frames, ranges (B, N) > 0."""

    def forward(self, values, durations, ranges, frames=None):
        if frames is None:
            frames = int(durations.sum(-1).max().round())
        return GaussianUpsampleFunction.apply(values, durations, ranges, frames)


# --------------------------------------------------------------------------
# delta features


def _delta_taps(frames, window, device):
    pos = torch.arange(frames, device=device)
    for n in range(1, window + 1):
        yield n, (pos + n).clamp_max(frames - 1), (pos - n).clamp_min(0)


@torch.library.custom_op("loft_speech::delta_features", mutates_args=())
def delta_features(x: Tensor, window: int = 2) -> Tensor:
    """Regression deltas along dim 1 of (B, T, F); end frames are repeated."""
    out = torch.zeros_like(x)
    for n, ahead, behind in _delta_taps(x.shape[1], window, x.device):
        out += n * (x[:, ahead] - x[:, behind])
    return out / (2 * sum(n * n for n in range(1, window + 1)))


@delta_features.register_fake
def _(x, window=2):
    return torch.empty_like(x)


def _delta_setup(ctx, inputs, output):
    ctx.window = inputs[1]


def _delta_backward(ctx, grad):
    g = grad / (2 * sum(n * n for n in range(1, ctx.window + 1)))
    out = torch.zeros_like(g)
    for n, ahead, behind in _delta_taps(g.shape[1], ctx.window, g.device):
        out.index_add_(1, ahead, n * g)
        out.index_add_(1, behind, -n * g)
    return out, None


delta_features.register_autograd(_delta_backward, setup_context=_delta_setup)


def add_deltas(feats, *, window=2, order=2):
    stack = [feats]
    for _ in range(order):
        stack.append(delta_features(stack[-1].contiguous(), window))
    return torch.cat(stack, -1)
