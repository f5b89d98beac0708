"""Losses and classifier heads for long-tailed, noisily labelled data sets.

Everything takes raw class logits ``(N, C)`` and integer labels ``(N,)``.  The
label ``IGNORE`` leaves a row out.  Class frequencies are passed as counts from
the training split.  The heavy expressions are fused into autograd Functions:
with 8k classes and large detection batches the unfused versions kept six
``(N, C)`` temporaries each.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

IGNORE = -100
LOG_ZERO = -4.0
MIN_NORM = 1e-8
PROB_FLOOR = 1e-2


def valid_rows(labels):
    """Boolean mask of labelled rows and labels safe for gathering."""
    keep = labels != IGNORE
    return keep, torch.where(keep, labels, torch.zeros_like(labels))


def one_hot_rows(labels, keep, classes, dtype):
    eye = F.one_hot(labels, classes).to(dtype)
    return eye * keep.unsqueeze(-1).to(dtype)


class SymmetricCrossEntropy(torch.autograd.Function):
    """alpha * CE(label, p) + beta * CE(p, label), averaged over labelled rows.

    In the reverse term log(0) of the one-hot label is replaced by LOG_ZERO
    (Wang et al., 2019), so that it equals -LOG_ZERO * (1 - p_label).
    """

    @staticmethod
    def forward(ctx, logits, labels, alpha, beta):
        keep, safe = valid_rows(labels)
        logp = F.log_softmax(logits, dim=-1)
        picked = logp.gather(1, safe.unsqueeze(1)).squeeze(1)
        rows = -alpha * picked - beta * LOG_ZERO * (1.0 - picked.exp())
        count = keep.sum().clamp_min(1).to(logits.dtype)
        ctx.save_for_backward(logp, safe, keep, count)
        ctx.alpha, ctx.beta = alpha, beta
        return torch.where(keep, rows, torch.zeros_like(rows)).sum() / count

    @staticmethod
    def backward(ctx, grad):
        logp, safe, keep, count = ctx.saved_tensors
        p = logp.exp()
        target = F.one_hot(safe, p.shape[1]).to(p.dtype)
        picked = p.gather(1, safe.unsqueeze(1))
        slope = -ctx.alpha + ctx.beta * LOG_ZERO * picked
        rows = slope * (target - p) * keep.unsqueeze(1)
        return grad * rows / count, None, None, None


class LdamMarginCE(torch.autograd.Function):
    """Label-distribution-aware margin softmax with trainable margins.

    Args:
        logits (Tensor): cosine-style scores, shape [N, C].
        margins (Tensor): non-negative margin subtracted from the score of
            the labelled class, shape [C].
        labels (LongTensor): shape [N], may hold IGNORE.
        class_weight (Tensor): fixed weights of the classes, shape [C]; the
            mean over rows is weighted by them.
        scale (float): inverse temperature.

    Returns:
        Tensor: scalar loss.
    """

    @staticmethod
    def forward(ctx, logits, margins, labels, class_weight, scale):
        keep, safe = valid_rows(labels)
        hot = one_hot_rows(safe, keep, logits.shape[1], logits.dtype)
        shifted = scale * (logits - hot * margins)
        logp = F.log_softmax(shifted, dim=-1)
        weight = class_weight[safe] * keep.to(logits.dtype)
        total = weight.sum().clamp_min(MIN_NORM)
        ctx.scale = scale
        ctx.save_for_backward(logp, hot, weight / total, safe, keep)
        return -(weight / total * (logp * hot).sum(-1)).sum()

    @staticmethod
    def backward(ctx, grad):
        logp, hot, weight, safe, keep = ctx.saved_tensors
        grad_shifted = grad * weight.unsqueeze(-1) * (logp.exp() - hot)
        grad_logits = ctx.scale * grad_shifted
        grad_margins = None
        if ctx.needs_input_grad[1]:
            rows = keep.nonzero().squeeze(-1)
            picked = grad_logits[rows, safe[rows]]
            grad_margins = torch.zeros(logp.shape[1], dtype=logp.dtype, device=logp.device)
            grad_margins[safe[rows]] -= picked
        return grad_logits, grad_margins, None, None, None


class SeesawCE(torch.autograd.Function):
    """Seesaw loss (Wang et al., CVPR 2021) over one batch.

    Negative class j of a sample labelled i is scaled by

        S_ij = min(1, (n_j / n_i) ** p) * max(1, (s_j / s_i) ** q)

    with n the class counts and s the softmax scores. As in the published
    implementation the scores inside S are detached: S is a constant of the
    backward pass, by design, and the gradient is that of the softmax with
    fixed factors.
    """

    @staticmethod
    def forward(ctx, logits, labels, counts, p, q):
        keep, safe = valid_rows(labels)
        log_s = F.log_softmax(logits, dim=-1)
        own = log_s.gather(1, safe.unsqueeze(1)).exp().clamp_min(PROB_FLOOR).log()
        log_n = counts.clamp_min(1).to(logits.dtype).log()
        mitigation = (p * (log_n.unsqueeze(0) - log_n[safe].unsqueeze(1))).clamp_max(0.0)
        compensation = (q * (log_s - own)).clamp_min(0.0)
        hot = F.one_hot(safe, logits.shape[1]).to(logits.dtype)
        factor = (mitigation + compensation) * (1.0 - hot)
        logp = F.log_softmax(logits + factor, dim=-1)
        share = keep.to(logits.dtype) / keep.sum().clamp_min(1)
        ctx.save_for_backward(logp, hot, share)
        return -((logp * hot).sum(-1) * share).sum()

    @staticmethod
    def backward(ctx, grad):
        logp, hot, share = ctx.saved_tensors
        return grad * share.unsqueeze(-1) * (logp.exp() - hot), None, None, None, None


class TauNormLogits(torch.autograd.Function):
    """Linear logits with each class vector divided by its norm to the tau.

    x: [N, D], weight: [C, D], bias: [C] -> [N, C].  tau = 0 is the plain
    linear layer, tau = 1 removes the norms altogether; values in between are
    used after stage-two tuning (Kang et al., 2020).
    """

    @staticmethod
    def forward(ctx, x, weight, bias, tau=1.0):
        norm = weight.norm(dim=1, keepdim=True).clamp_min(MIN_NORM)
        unit = weight * norm.pow(-tau)
        ctx.tau = tau
        ctx.save_for_backward(x, weight, norm, unit)
        return x @ unit.t() + bias

    @staticmethod
    def backward(ctx, grad):
        x, weight, norm, unit = ctx.saved_tensors
        grad_x = grad @ unit
        outer = grad.t() @ x
        direction = weight / norm
        radial = (outer * direction).sum(1, keepdim=True)
        grad_weight = (outer - radial * direction) * norm.pow(-ctx.tau)
        return grad_x, grad_weight, grad.sum(0), None


def ldam_margins(counts, largest=0.5):
    """Margins proportional to n^(-1/4), scaled so that the rarest gets `largest`."""
    raw = counts.clamp_min(1).double().pow(-0.25)
    return (raw * (largest / raw.max())).to(torch.get_default_dtype())


def effective_number_weights(counts, beta=0.999):
    n = counts.clamp_min(1).double()
    weight = (1.0 - beta) / (1.0 - beta ** n)
    return (weight * len(counts) / weight.sum()).to(torch.get_default_dtype())


def split_shots(counts, many=100, few=20):
    """Indices of many-, medium- and few-shot classes."""
    order = {
        "many": counts > many,
        "medium": (counts <= many) & (counts >= few),
        "few": counts < few,
    }
    return {name: mask.nonzero().squeeze(-1) for name, mask in order.items()}


class SymmetricCELoss(nn.Module):
    def __init__(self, alpha=0.1, beta=1.0):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, logits, labels):
        return SymmetricCrossEntropy.apply(logits, labels, self.alpha, self.beta)


class LdamHead(nn.Module):
    """Cosine classifier with LDAM margins and deferred re-weighting."""

    def __init__(self, features, counts, scale=30.0, defer_until=160, learn_margins=False):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(len(counts), features) * 0.02)
        self.margins = nn.Parameter(ldam_margins(counts), requires_grad=learn_margins)
        self.register_buffer("late_weight", effective_number_weights(counts))
        self.scale = scale
        self.defer_until = defer_until

    def forward(self, x, labels, epoch=0):
        scores = F.normalize(x, dim=1) @ F.normalize(self.weight, dim=1).t()
        weight = self.late_weight if epoch >= self.defer_until else torch.ones_like(self.late_weight)
        return LdamMarginCE.apply(scores, self.margins, labels, weight, self.scale)


class SeesawHead(nn.Module):
    def __init__(self, features, classes, p=0.8, q=2.0):
        super().__init__()
        self.fc = nn.Linear(features, classes)
        self.p, self.q = p, q
        self.register_buffer("counts", torch.zeros(classes))

    def forward(self, x, labels):
        if self.training:
            seen = labels[labels != IGNORE]
            self.counts += torch.bincount(seen, minlength=len(self.counts)).to(self.counts)
        return SeesawCE.apply(self.fc(x), labels, self.counts.clone(), self.p, self.q)


class TauNormHead(nn.Module):
    """Classifier whose norm exponent is set after the first stage."""

    def __init__(self, features, classes, tau=1.0):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(classes, features) * 0.1)
        self.bias = nn.Parameter(torch.zeros(classes))
        self.tau = tau

    @classmethod
    def from_linear(cls, linear, tau=0.7):
        head = cls(linear.in_features, linear.out_features, tau)
        with torch.no_grad():
            head.weight.copy_(linear.weight)
            head.bias.copy_(linear.bias)
        return head

    def forward(self, x):
        return TauNormLogits.apply(x, self.weight, self.bias, self.tau)


def demo():
    torch.manual_seed(1)
    counts = torch.tensor([900, 240, 75, 31, 12, 5])
    x = torch.randn(16, 10)
    labels = torch.randint(0, 6, (16,))
    labels[3] = IGNORE
    head = TauNormHead.from_linear(nn.Linear(10, 6))
    losses = {
        "symmetric": SymmetricCELoss()(head(x), labels),
        "ldam": LdamHead(10, counts, learn_margins=True)(x, labels, epoch=170),
        "seesaw": SeesawHead(10, 6)(x, labels),
    }
    sum(losses.values()).backward()
    print({k: round(v.item(), 4) for k, v in losses.items()}, split_shots(counts))


if __name__ == "__main__":
    demo()
