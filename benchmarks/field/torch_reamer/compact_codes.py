"""Compressing embedding tables into short codes."""
import torch
import torch.nn as nn
from torch.autograd import Function


def additive_lookup(codes, pad=None):
    """Build a lookup for a fixed table of codes.

    ``codes`` is an integer table (vocabulary, M): token v is the sum over m of ``books[m, codes[v, m]]``.  Token ``pad`` is the
    zero vector.
    """
    vocabulary, n_books = codes.shape

    class SummedCodewords(Function):
        # books (M, K, D), tokens integer of any shape -> tokens.shape + (D,)
        @staticmethod
        def forward(ctx, books, tokens):
            picked = codes[tokens]
            out = sum(books[m][picked[..., m]] for m in range(n_books))
            if pad is not None:
                out = out * (tokens != pad).unsqueeze(-1)
            ctx.save_for_backward(tokens)
            ctx.like = books.shape
            return out

        @staticmethod
        def backward(ctx, grad):
            tokens, = ctx.saved_tensors
            flat, g = tokens.reshape(-1), grad.reshape(-1, grad.shape[-1])
            if pad is not None:
                g = g * (flat != pad).unsqueeze(-1)
            # first per distinct token, then per codeword
            used, place = torch.unique(flat, return_inverse=True)
            per_token = g.new_zeros(len(used), g.shape[-1]).index_add_(0, place, g)
            g_books = g.new_zeros(ctx.like)
            for m in range(n_books):
                g_books[m, codes[used, m]] += per_token
            return g_books, None

    return SummedCodewords


class RotatedSoftCode(Function):
    """Soft assignment to codewords in a learned frame.

    x (N, D) is turned by R (D, D), compared to the centers (K, D), and the mixture of centers is turned back with R's transpose.
    R is a free matrix, kept near a rotation by a penalty elsewhere.  Gives the reconstruction (N, D) and each row's assignment
    entropy (N,).
    """

    @staticmethod
    def forward(x, R, centers, temperature):
        u = x @ R
        p = torch.softmax(-torch.cdist(u, centers).square() / temperature, dim=-1)
        v = p @ centers
        entropy = torch.special.entr(p).sum(-1)
        return v @ R.T, entropy

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, R, centers, temperature = inputs
        ctx.save_for_backward(x, R, centers)
        ctx.temperature = temperature

    @staticmethod
    def backward(ctx, g_out, g_entropy):
        x, R, centers = ctx.saved_tensors
        u = x @ R
        away = u[:, None, :] - centers[None]
        logp = torch.log_softmax(-away.square().sum(-1) / ctx.temperature, dim=-1)
        p = logp.exp()

        g_v = g_out @ R
        g_p = g_v @ centers.T - g_entropy[:, None] * (logp + 1)
        g_logit = p * (g_p - (p * g_p).sum(-1, keepdim=True))
        pull = (-2 / ctx.temperature) * g_logit[..., None] * away
        g_u = pull.sum(1)
        g_centers = p.T @ g_v - pull.sum(0)
        g_R = x.T @ g_u + g_out.T @ (p @ centers)
        return g_u @ R, g_R, g_centers, None


class GridAffinity(Function):
    """How far weights sit from the quantization grid: weighted mean over a row of sin^2(pi * w / step).

    weight (rows, n), step (rows,) or a scalar tensor, importance (rows, n) non-negative, e.g. a Fisher diagonal.  The mean is
    damped, its denominator is the row's importance plus `damp`.  grid='odd' puts the levels at half steps (no zero level), grid='even' at whole ones.
    """

    @staticmethod
    def forward(ctx, weight, step, importance, grid="even", damp=1e-2):
        width = step.reshape(-1, 1)
        phase = torch.pi * weight / width
        if grid == "odd":
            phase = phase + torch.pi / 2
        miss = torch.sin(phase).square()
        total = importance.sum(-1, keepdim=True)
        mean = (importance * miss).sum(-1, keepdim=True) / (total + damp)
        ctx.save_for_backward(weight, step, importance, phase, miss, mean, total + damp)
        return mean.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        weight, step, importance, phase, miss, mean, total = ctx.saved_tensors
        width = step.reshape(-1, 1)
        g = grad.unsqueeze(-1) / total
        g_phase = g * importance * torch.sin(2 * phase)
        g_weight = g_phase * torch.pi / width
        g_width = -(g_phase * weight).sum(-1, keepdim=True) * torch.pi / width.square()
        g_step = g_width.sum() if step.numel() == 1 else g_width
        g_importance = g * (miss - mean)
        return g_weight, g_step.reshape(step.shape), g_importance, None, None


class CodewordBrake(Function):
    """Identity on the codewords; the gradient is deliberately not the true one.

    On the way back each codeword's gradient (the last axis) is shortened to length `cap` when it is longer, so that a codeword hit
    by half of the batch does not jump.  Shorter gradients pass unchanged.
    """

    @staticmethod
    def forward(ctx, codewords, cap):
        ctx.cap = cap
        return codewords.view_as(codewords)

    @staticmethod
    def backward(ctx, grad):
        length = grad.norm(dim=-1, keepdim=True)
        return grad * (ctx.cap / length.clamp(min=ctx.cap)), None


class SoftCodeLayer(nn.Module):
    def __init__(self, dim, n_codes, temperature=1.0, cap=1.0):
        super().__init__()
        self.R = nn.Parameter(torch.eye(dim))
        self.centers = nn.Parameter(torch.randn(n_codes, dim))
        self.temperature, self.cap = temperature, cap

    def forward(self, x):
        shape = x.shape
        out, entropy = RotatedSoftCode.apply(
            x.reshape(-1, shape[-1]), self.R, CodewordBrake.apply(self.centers, self.cap), self.temperature)
        return out.reshape(shape), entropy.reshape(shape[:-1])
