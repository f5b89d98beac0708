"""Loss functions with hand written gradients.

All of them keep fewer activations than the composition of stock PyTorch
operations would. Reductions follow the usual names.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FusedLinearCrossEntropy(Function):
    """Language-model head and cross entropy in one go, in chunks of rows.

    The logits are never materialised for more than ``chunk`` rows. Gradients
    are computed during the forward pass and only scaled in the backward.

    Args:
        x: (N, D) hidden states.
        weight: (V, D) output embedding.
        target: (N,) token ids; rows equal to ``ignore_index`` do not count.
        bias: (V,) or None.
        ignore_index: see above.
        reduction: "mean" (over counted rows) or "sum".
        chunk: rows per chunk.
    """

    @staticmethod
    def forward(ctx, x, weight, target, bias=None, ignore_index=-100, reduction="mean", chunk=256):
        need_x, need_w = ctx.needs_input_grad[0], ctx.needs_input_grad[1]
        need_b = bias is not None and ctx.needs_input_grad[3]
        gx = torch.zeros_like(x) if need_x else None
        gw = torch.zeros_like(weight) if need_w else None
        gb = torch.zeros_like(bias) if need_b else None

        valid = target != ignore_index
        denom = valid.sum().clamp(min=1).to(x.dtype) if reduction == "mean" else x.new_ones(())
        loss = x.new_zeros(())
        for start in range(0, x.shape[0], chunk):
            rows = slice(start, start + chunk)
            keep = valid[rows]
            logits = F.linear(x[rows], weight, bias)
            logp = torch.log_softmax(logits, dim=-1)
            idx = target[rows].masked_fill(~keep, 0).unsqueeze(1)
            loss = loss - (logp.gather(1, idx).squeeze(1) * keep).sum()
            dlogits = logp.exp_()
            dlogits.scatter_add_(1, idx, -torch.ones_like(idx, dtype=x.dtype))
            dlogits *= keep.unsqueeze(1) / denom
            if need_x:
                gx[rows] = dlogits @ weight
            if need_w:
                gw.addmm_(dlogits.t(), x[rows])
            if need_b:
                gb += dlogits.sum(0)
        ctx.save_for_backward(gx, gw, gb)
        return loss / denom

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        gx, gw, gb = (None if t is None else t * grad_output for t in ctx.saved_tensors)
        return gx, gw, None, gb, None, None, None


class LMHeadLoss(nn.Module):
    def __init__(self, dim, vocab, ignore_index=-100, reduction="mean"):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(vocab, dim) * dim ** -0.5)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, hidden, labels):
        # next-token shift
        hidden = hidden[:, :-1].reshape(-1, hidden.shape[-1])
        labels = labels[:, 1:].reshape(-1)
        return FusedLinearCrossEntropy.apply(
            hidden, self.weight, labels, None, self.ignore_index, self.reduction
        )


class SmoothedNLL(Function):

    @staticmethod
    def forward(ctx, logits, target, smoothing=0.1, ignore_index=-100, reduction="mean"):
        valid = target.ne(ignore_index)
        safe = target.masked_fill(~valid, 0)
        logp = logits.log_softmax(-1)
        nll = -logp.gather(-1, safe.unsqueeze(-1)).squeeze(-1)
        uniform = -logp.mean(-1)
        loss = ((1 - smoothing) * nll + smoothing * uniform).masked_fill(~valid, 0.0)
        ctx.save_for_backward(logp, safe, valid)
        ctx.smoothing, ctx.reduction = smoothing, reduction
        if reduction == "mean":
            return loss.sum() / valid.sum()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        logp, safe, valid = ctx.saved_tensors
        eps, n_cls = ctx.smoothing, logp.size(-1)
        q = torch.full_like(logp, eps / n_cls)
        q.scatter_add_(-1, safe.unsqueeze(-1), torch.full_like(logp[..., :1], 1 - eps))
        d = (logp.exp() - q) * valid.unsqueeze(-1)
        if ctx.reduction == "mean":
            d = d * (g / valid.numel())
        elif ctx.reduction == "sum":
            d = d * g
        else:
            d = d * g.unsqueeze(-1)
        return d, None, None, None, None


class LabelSmoothingLoss(nn.Module):
    """Label smoothing as in "Attention is all you need"."""

    def __init__(self, smoothing=0.1, ignore_index=-100, reduction="mean"):
        super().__init__()
        self.args = (smoothing, ignore_index, reduction)

    def forward(self, logits, target):
        return SmoothedNLL.apply(logits, target, *self.args)


class ClassBalancedCE(Function):
    """Cross entropy with one weight per class for imbalanced segmentation.

    Parameters
    ----------
    logits : Tensor, shape (N, C, *spatial)
    target : LongTensor, shape (N, *spatial)
    weight : Tensor, shape (C,)
        Class weights, constant.
    reduction : str
        "mean" is the weighted mean (as in ``F.cross_entropy``), or "sum".
    """

    @staticmethod
    def forward(ctx, logits, target, weight, reduction="mean"):
        logp = F.log_softmax(logits, dim=1)
        w = weight[target]
        total = -(w * logp.gather(1, target.unsqueeze(1)).squeeze(1)).sum()
        denom = w.sum() if reduction == "mean" else torch.ones_like(total)
        ctx.save_for_backward(logp, target, weight, denom)
        return total / denom

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        logp, target, weight, denom = ctx.saved_tensors
        onehot = torch.zeros_like(logp).scatter_(1, target.unsqueeze(1), 1.0)
        w = weight.view(1, -1, *([1] * (logp.dim() - 2)))
        grad = w * (logp.exp() - onehot)
        return grad_out * grad / denom, None, None, None


class SigmoidFocalLoss(Function):
    """Focal loss of RetinaNet for binary labels.

    logits: any shape; labels: integers of the same shape, 1 for foreground,
    0 for background, -1 for anchors which should be left out. The mean is taken
    over the anchors which are not left out.
    """

    @staticmethod
    def forward(ctx, logits, labels, alpha=0.25, gamma=2.0, reduction="mean"):
        sign = (2 * labels.clamp(min=0) - 1).to(logits.dtype)
        alpha_t = torch.where(labels == 1, alpha, 1.0 - alpha).to(logits.dtype)
        alpha_t = alpha_t * (labels >= 0)
        z = sign * logits
        log_pt = F.logsigmoid(z)
        loss = -alpha_t * torch.sigmoid(-z) ** gamma * log_pt
        norm = (labels >= 0).sum().clamp(min=1)
        ctx.save_for_backward(logits, sign, alpha_t, norm)
        ctx.gamma, ctx.reduction = gamma, reduction
        if reduction == "mean":
            return loss.sum() / norm
        return loss.sum() if reduction == "sum" else loss

    @staticmethod
    def backward(ctx, g):
        logits, sign, alpha_t, norm = ctx.saved_tensors
        z = sign * logits
        pt, qt = torch.sigmoid(z), torch.sigmoid(-z)
        dz = alpha_t * qt ** ctx.gamma * (ctx.gamma * pt * F.logsigmoid(z) - qt)
        if ctx.reduction == "mean":
            g = g / norm
        return g * dz * sign, None, None, None, None


def focal_loss(logits, labels, alpha=0.25, gamma=2.0, reduction="mean"):
    return SigmoidFocalLoss.apply(logits, labels, alpha, gamma, reduction)


class ClipLoss(Function):

    @staticmethod
    def forward(image, text, log_scale):
        logits = log_scale.exp() * image @ text.T
        diag = logits.diagonal()
        return 0.5 * ((logits.logsumexp(1) - diag).mean() + (logits.logsumexp(0) - diag).mean())

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        image, text, log_scale = ctx.saved_tensors
        scale = log_scale.exp()
        logits = scale * image @ text.T
        n = logits.shape[0]
        G = 0.5 * (logits.softmax(1) + logits.softmax(0)) - torch.eye(n, dtype=logits.dtype, device=logits.device)
        G = G * (g / n)
        return scale * G @ text, scale * G.T @ image, (G * logits).sum()


class ContrastiveHead(nn.Module):
    def __init__(self, d_image, d_text, d_joint=64):
        super().__init__()
        self.image_proj = nn.Linear(d_image, d_joint, bias=False)
        self.text_proj = nn.Linear(d_text, d_joint, bias=False)
        self.log_scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, image, text):
        i = F.normalize(self.image_proj(image), dim=-1)
        t = F.normalize(self.text_proj(text), dim=-1)
        return ClipLoss.apply(i, t, self.log_scale)


class HeteroscedasticNLL(Function):
    """Gaussian negative log likelihood (without the constant).

    ``mean`` and ``target`` are (batch, features); ``log_var`` is either of that
    shape, (batch, 1) or (features,) for a variance shared by the batch.
    """

    @staticmethod
    def forward(ctx, mean, log_var, target, reduction="mean"):
        ctx.save_for_backward(mean, log_var, target)
        ctx.reduction = reduction
        loss = 0.5 * (log_var + (target - mean) ** 2 * torch.exp(-log_var))
        if reduction == "none":
            return loss
        return loss.mean() if reduction == "mean" else loss.sum()

    @staticmethod
    def backward(ctx, g):
        mean, log_var, target = ctx.saved_tensors
        r = target - mean
        prec = torch.exp(-log_var)
        if ctx.reduction == "mean":
            g = g / (r * prec).numel()
        g_mean = -g * r * prec
        # expanded dimensions of log_var are summed by the engine
        g_log_var = 0.5 * g * (1.0 - r * r * prec)
        return g_mean, g_log_var, -g_mean, None


class PaddedSequenceMSE(Function):
    """Mean squared error for padded batches: every sequence counts the same.

    Args:
        pred (Tensor): ``(B, T, D)``
        target (Tensor): ``(B, T, D)``
        lengths (LongTensor): ``(B,)``, number of real frames of each sequence

    Returns:
        Tensor: scalar, the mean over the batch of the mean over real frames.
    """

    @staticmethod
    def forward(ctx, pred, target, lengths):
        mask = torch.arange(pred.size(1), device=pred.device)[None, :] < lengths[:, None]
        mask = mask.unsqueeze(-1).to(pred.dtype)
        diff = (pred - target) * mask
        per_seq = diff.square().sum(dim=(1, 2)) / (lengths * pred.size(2))
        ctx.save_for_backward(diff, mask)
        return per_seq.mean()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        diff, mask = ctx.saved_tensors
        scale = 2.0 / (mask.sum() * diff.size(2))
        grad = grad_output * scale * diff
        return grad, -grad, None
