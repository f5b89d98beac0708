"""Losses that keep a single buffer of the size of the logits."""

import torch
from torch import Tensor, nn
from torch.autograd import Function


class CrossEntropyFunction(Function):
    """Cross entropy of rows of logits, with the options of ``torch.nn.functional.cross_entropy``.

    Args:
        logits: (rows, classes).
        target: (rows,) class numbers.
        weight: (classes,) weight of each class, or None. The mean is the weighted mean.
        ignore_index: rows with this target do not count.
        label_smoothing: share of the target that is spread over all classes.
        reduction: "mean", "sum" or "none".
        softcap: if given, logits pass through ``softcap * tanh(logits / softcap)`` first.
    """

    @staticmethod
    def forward(ctx, logits, target, weight=None, ignore_index=-100, label_smoothing=0.0, reduction="mean",
                softcap=None):
        capped = logits if softcap is None else softcap * torch.tanh(logits / softcap)
        classes = logits.shape[-1]
        valid = target != ignore_index
        safe = target.masked_fill(~valid, 0)
        w = logits.new_ones(classes) if weight is None else weight
        logp = torch.log_softmax(capped, dim=-1)
        row_weight = w[safe] * valid
        nll = -logp.gather(1, safe[:, None]).squeeze(1) * row_weight
        smooth = -(logp * w).sum(-1) * valid
        loss = (1 - label_smoothing) * nll + label_smoothing / classes * smooth
        ctx.save_for_backward(logits, safe, valid, w)
        ctx.label_smoothing = label_smoothing
        ctx.reduction = reduction
        ctx.softcap = softcap
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / row_weight.sum()

    @staticmethod
    def backward(ctx, grad_output):
        logits, safe, valid, w = ctx.saved_tensors
        if not ctx.needs_input_grad[0]:
            return (None,) * 7
        classes = logits.shape[-1]
        squash = None
        capped = logits
        if ctx.softcap is not None:
            squash = torch.tanh(logits / ctx.softcap)
            capped = ctx.softcap * squash
        p = torch.softmax(capped, dim=-1)
        one_hot = torch.zeros_like(p).scatter_(1, safe[:, None], 1.0)
        grad = (1 - ctx.label_smoothing) * w[safe][:, None] * (p - one_hot)
        grad += ctx.label_smoothing / classes * (p * w.sum() - w)
        grad *= valid[:, None]
        if ctx.reduction == "none":
            grad *= grad_output[:, None]
        elif ctx.reduction == "sum":
            grad *= grad_output
        else:
            grad *= grad_output / valid.sum()
        if squash is not None:
            grad *= 1 - squash.square()
        return grad, None, None, None, None, None, None


class KLDivFunction(Function):
    """Kullback-Leibler divergence of ``y_true`` from ``exp(y_pred)``.

    ``y_pred`` holds log-probabilities, ``y_true`` probabilities, or log-probabilities with ``log_target=True``.
    ``reduction`` is one of ``none``, ``sum``, ``mean`` (over all elements) and ``batchmean`` (over the rows).
    """

    @staticmethod
    def forward(ctx, y_pred: Tensor, y_true: Tensor, reduction: str = "batchmean", log_target: bool = False,
                eps: float = 1e-10) -> Tensor:
        if log_target:
            loss = y_true.exp() * (y_true - y_pred)
        else:
            loss = y_true * (y_true.clamp_min(eps).log() - y_pred)
        ctx.save_for_backward(y_pred, y_true)
        ctx.settings = reduction, log_target, eps
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        if reduction == "mean":
            return loss.mean()
        return loss.sum() / y_pred.shape[0]

    @staticmethod
    def backward(ctx, grad_output: Tensor):
        y_pred, y_true = ctx.saved_tensors
        reduction, log_target, eps = ctx.settings
        if reduction in ("mean", "batchmean"):
            grad_output = grad_output / y_pred.shape[0]
        d_pred = d_true = None
        if ctx.needs_input_grad[0]:
            d_pred = -(y_true.exp() if log_target else y_true) * grad_output
        if ctx.needs_input_grad[1]:
            if log_target:
                d_true = y_true.exp() * (y_true - y_pred + 1) * grad_output
            else:
                d_true = (y_true.clamp_min(eps).log() + (y_true > eps).to(y_true.dtype) - y_pred) * grad_output
        return d_pred, d_true, None, None, None


class JSDFunction(Function):
    """Generalised Jensen-Shannon divergence between two tables of log-probabilities.

    With ``M = beta * P + (1 - beta) * Q`` the loss is ``beta * KL(P || M) + (1 - beta) * KL(Q || M)``, summed over
    the classes and averaged over the rows whose label is not ``ignore_index``.

    Parameters
    ----------
    log_q, log_p : Tensor, shape (rows, classes)
    labels : LongTensor, shape (rows,), optional
    beta : float
        Strictly between 0 and 1.
    ignore_index : int
    """

    @staticmethod
    def forward(ctx, log_q, log_p, labels=None, beta=0.5, ignore_index=-100):
        if not 0.0 < beta < 1.0:
            raise ValueError("beta has to lie strictly between 0 and 1")
        q, p = log_q.exp(), log_p.exp()
        log_m = torch.log(beta * p + (1 - beta) * q)
        if labels is None:
            keep = torch.ones(log_q.shape[0], dtype=log_q.dtype, device=log_q.device)
        else:
            keep = (labels != ignore_index).to(log_q.dtype)
        keep = (keep / keep.sum().clamp_min(1.0))[:, None]
        part_p = p * (log_p - log_m)
        part_q = q * (log_q - log_m)
        ctx.beta = beta
        ctx.save_for_backward(part_p * keep, part_q * keep)
        return ((beta * part_p + (1 - beta) * part_q) * keep).sum()

    @staticmethod
    def backward(ctx, grad):
        part_p, part_q = ctx.saved_tensors
        return grad * (1 - ctx.beta) * part_q, grad * ctx.beta * part_p, None, None, None


class JSDLoss(nn.Module):
    def __init__(self, beta=0.5, ignore_index=-100):
        super().__init__()
        self.beta = beta
        self.ignore_index = ignore_index

    def forward(self, student_logits, teacher_logits, labels=None):
        return JSDFunction.apply(
            student_logits.log_softmax(-1), teacher_logits.log_softmax(-1), labels, self.beta, self.ignore_index
        )


class SigmoidFocalLossFunction(Function):
    @staticmethod
    def forward(ctx, logits, targets, alpha=0.25, gamma=2.0, reduction="none"):
        p = torch.sigmoid(logits)
        p_t = p * targets + (1 - p) * (1 - targets)
        alpha_t = alpha * targets + (1 - alpha) * (1 - targets)
        ce = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
        factor = alpha_t * (1 - p_t) ** gamma
        ctx.save_for_backward(p, targets, factor)
        ctx.reduction = reduction
        loss = factor * ce
        if reduction == "mean":
            return loss.mean()
        if reduction == "sum":
            return loss.sum()
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        p, targets, factor = ctx.saved_tensors
        if ctx.reduction == "mean":
            grad_output = grad_output / p.numel()
        return grad_output * factor * (p - targets), None, None, None, None


def sigmoid_focal_loss(logits, targets, *, alpha=0.25, gamma=2.0, reduction="none"):
    """Focal loss of RetinaNet for 0/1 targets given as floats."""
    return SigmoidFocalLossFunction.apply(logits, targets, alpha, gamma, reduction)


class PPOClipFunction(Function):
    """Clipped surrogate objective of proximal policy optimisation over the tokens where the bool ``mask`` is set.

    Returns:
        loss: masked mean of ``-min(r * A, clip(r, 1 - eps_low, 1 + eps_high) * A)``, ``r = exp(logp - old_logp)``.
        clip_fraction: share of the tokens on which the clipped branch is taken (for logging, not differentiable).
    """

    @staticmethod
    def forward(ctx, logp, old_logp, advantages, mask, eps_low=0.2, eps_high=0.2):
        mask = mask.to(logp.dtype)
        mask = mask / mask.sum().clamp_min(1.0)
        ratio = torch.exp(logp - old_logp)
        bounded = ratio.clamp(1 - eps_low, 1 + eps_high)
        plain = ratio * advantages
        clipped = bounded * advantages
        taken = clipped < plain
        chosen = torch.where(taken, bounded, ratio)
        loss = -(chosen * advantages * mask).sum()
        fraction = (taken.to(logp.dtype) * mask).sum()
        ctx.mark_non_differentiable(fraction)
        ctx.save_for_backward(chosen, taken, advantages, mask)
        return loss, fraction

    @staticmethod
    def backward(ctx, grad_loss, _):
        chosen, taken, advantages, mask = ctx.saved_tensors
        d_logp = d_old = d_adv = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            d_logp = -grad_loss * mask * (chosen * advantages).masked_fill(taken, 0.0)
            d_old = -d_logp
        if ctx.needs_input_grad[2]:
            d_adv = -grad_loss * mask * chosen
        return d_logp, d_old, d_adv, None, None, None
