"""Losses: token classification, dense detection heads, image-text pre-training."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LabelSmoothedCE(Function):
    """Cross entropy with label smoothing and ignored tokens.

    Args:
        logits (Tensor): [N, V]
        target (LongTensor): [N], class ids or ``ignore_index``
        smoothing (float): mass spread evenly over all V classes
        ignore_index (int): rows with this label do not count
        reduction (str): 'none' | 'sum' | 'mean'. 'mean' is over the rows that count.
    """

    @staticmethod
    def forward(ctx, logits, target, smoothing=0.1, ignore_index=-100, reduction="mean"):
        lprobs = F.log_softmax(logits, dim=-1)
        keep = target.ne(ignore_index)
        safe = target.masked_fill(~keep, 0)
        nll = -lprobs.gather(1, safe[:, None]).squeeze(1)
        smooth = -lprobs.mean(dim=1)
        loss = (1.0 - smoothing) * nll + smoothing * smooth
        loss = loss.masked_fill(~keep, 0.0)
        ctx.save_for_backward(lprobs, safe, keep)
        ctx.smoothing = smoothing
        ctx.reduction = reduction
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / keep.sum().clamp(min=1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        lprobs, safe, keep = ctx.saved_tensors
        n, v = lprobs.shape
        grad = lprobs.exp() - ctx.smoothing / v
        grad.scatter_add_(1, safe[:, None], grad.new_full((n, 1), -(1.0 - ctx.smoothing)))
        grad = grad * keep[:, None].to(grad.dtype)
        if ctx.reduction == "none":
            grad = grad * grad_output[:, None]
        else:
            grad = grad * grad_output
        if ctx.reduction == "mean":
            grad = grad / n
        return grad, None, None, None, None


class SigmoidFocalLossFunction(Function):
    """RetinaNet focal loss, labels given as class ids.

    pred is (N, C); target is (N,) with values in [0, C], where C stands for background.
    """

    @staticmethod
    def forward(ctx, pred, target, gamma=2.0, alpha=0.25, reduction="mean"):
        num_classes = pred.size(1)
        onehot = F.one_hot(target, num_classes + 1)[:, :num_classes].bool()
        z = torch.where(onehot, pred, -pred)
        ce = F.softplus(-z)
        q = torch.sigmoid(-z)                     # 1 - p_t
        a = torch.where(onehot, alpha, 1.0 - alpha).to(pred.dtype)
        ctx.save_for_backward(pred, onehot)
        ctx.gamma, ctx.alpha, ctx.reduction = gamma, alpha, reduction
        loss = a * q.pow(gamma) * ce
        if reduction == "mean":
            return loss.mean()
        return loss.sum() if reduction == "sum" else loss

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        pred, onehot = ctx.saved_tensors
        z = torch.where(onehot, pred, -pred)
        ce = F.softplus(-z)
        q = torch.sigmoid(-z)
        p = torch.sigmoid(z)
        a = torch.where(onehot, ctx.alpha, 1.0 - ctx.alpha).to(pred.dtype)
        dz = -a * q.pow(ctx.gamma) * (ctx.gamma * p * ce + q)
        grad = torch.where(onehot, dz, -dz) * grad_output
        if ctx.reduction == "mean":
            grad = grad / pred.numel()
        return grad, None, None, None, None


class SigmoidFocalLoss(nn.Module):
    def __init__(self, gamma=2.0, alpha=0.25, reduction="sum", loss_weight=1.0):
        super().__init__()
        self.gamma, self.alpha = gamma, alpha
        self.reduction = reduction
        self.loss_weight = loss_weight

    def forward(self, pred, target, avg_factor=None):
        loss = SigmoidFocalLossFunction.apply(pred, target, self.gamma, self.alpha, self.reduction)
        if avg_factor is not None:
            loss = loss / max(avg_factor, 1.0)
        return self.loss_weight * loss


class IoULossFunction(Function):
    # FCOS regression loss. pred / target are the positive distances (l, t, r, b), shape (N, 4);
    # returns the loss of each location, (N,). The targets are constants.

    @staticmethod
    def forward(ctx, pred, target):
        pl, pt, pr, pb = pred.unbind(-1)
        tl, tt, tr, tb = target.unbind(-1)
        w_i = torch.minimum(pl, tl) + torch.minimum(pr, tr)
        h_i = torch.minimum(pt, tt) + torch.minimum(pb, tb)
        inter = w_i * h_i
        union = (pl + pr) * (pt + pb) + (tl + tr) * (tt + tb) - inter
        ctx.save_for_backward(pred, target, w_i, h_i, inter, union)
        return torch.log(union + 1.0) - torch.log(inter + 1.0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        pred, target, w_i, h_i, inter, union = ctx.saved_tensors
        pl, pt, pr, pb = pred.unbind(-1)
        inside = (pred < target).to(pred.dtype)
        side_i = torch.stack([h_i, w_i, h_i, w_i], dim=-1)
        side_p = torch.stack([pt + pb, pl + pr, pt + pb, pl + pr], dim=-1)
        d_inter = inside * side_i
        d_union = side_p - d_inter
        d = d_union / (union + 1.0)[:, None] - d_inter / (inter + 1.0)[:, None]
        return d * grad_output[:, None], None


def iou_loss(pred, target, weight=None):
    losses = IoULossFunction.apply(pred, target.detach())
    if weight is not None and weight.sum() > 0:
        return (losses * weight).sum() / weight.sum()
    return losses.mean()


class ClipLossFunction(Function):
    """Symmetric InfoNCE between N image and N text embeddings (already normalised).

    image, text: (N, D); logit_scale: scalar tensor, multiplies the cosines.
    """

    @staticmethod
    def forward(ctx, image, text, logit_scale):
        cos = image @ text.t()
        logits = logit_scale * cos
        labels = torch.arange(len(image), device=image.device)
        loss = 0.5 * (F.cross_entropy(logits, labels) + F.cross_entropy(logits.t(), labels))
        ctx.save_for_backward(image, text, logit_scale, cos)
        return loss

    @staticmethod
    def backward(ctx, grad_output):
        image, text, logit_scale, cos = ctx.saved_tensors
        n = len(image)
        logits = logit_scale * cos
        eye = torch.eye(n, dtype=image.dtype, device=image.device)
        g = 0.5 * ((logits.softmax(dim=1) - eye) + (logits.softmax(dim=0) - eye)) / n
        g = g * grad_output
        grad_image = logit_scale * (g @ text)
        grad_text = logit_scale * (g @ image)
        grad_scale = (g * cos).sum()
        return grad_image, grad_text, grad_scale


class ClipLoss(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_scale = nn.Parameter(torch.tensor(2.6593))

    def forward(self, image, text):
        image = F.normalize(image, dim=-1)
        text = F.normalize(text, dim=-1)
        return ClipLossFunction.apply(image, text, self.log_scale.exp())


if __name__ == "__main__":
    crit = ClipLoss()
    a, b = torch.randn(2, 6, 16, requires_grad=True).unbind(0)
    print(float(crit(a, b)))
    x = torch.randn(5, 11, requires_grad=True)
    LabelSmoothedCE.apply(x, torch.randint(0, 11, (5,))).backward()
    print(x.grad.norm())
