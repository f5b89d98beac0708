# Copyright (c) the boxkit authors.
"""Losses and pooling for the detector / instance segmentation heads."""
import torch
from torch import nn
from torch.autograd import Function
from torch.nn import functional as F

EPS = 1e-7


def _giou_terms(a, b):
    """Intersection, union and hull of aligned xyxy boxes."""
    iw = (torch.min(a[:, 2], b[:, 2]) - torch.max(a[:, 0], b[:, 0])).clamp(min=0)
    ih = (torch.min(a[:, 3], b[:, 3]) - torch.max(a[:, 1], b[:, 1])).clamp(min=0)
    cw = torch.max(a[:, 2], b[:, 2]) - torch.min(a[:, 0], b[:, 0])
    ch = torch.max(a[:, 3], b[:, 3]) - torch.min(a[:, 1], b[:, 1])
    area_a = (a[:, 2] - a[:, 0]) * (a[:, 3] - a[:, 1])
    area_b = (b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1])
    inter = iw * ih
    return iw, ih, cw, ch, inter, area_a + area_b - inter, cw * ch


def _giou_jac(a, b):
    """d giou / d a, (N, 4)."""
    iw, ih, cw, ch, inter, union, hull = _giou_terms(a, b)
    zero = torch.zeros_like(iw)
    hit = (iw > 0) & (ih > 0)
    w, h = a[:, 2] - a[:, 0], a[:, 3] - a[:, 1]
    d_area = torch.stack([-h, -w, h, w], 1)
    d_inter = torch.stack([
        torch.where(hit & (a[:, 0] > b[:, 0]), -ih, zero),
        torch.where(hit & (a[:, 1] > b[:, 1]), -iw, zero),
        torch.where(hit & (a[:, 2] < b[:, 2]), ih, zero),
        torch.where(hit & (a[:, 3] < b[:, 3]), iw, zero),
    ], 1)
    d_hull = torch.stack([
        torch.where(a[:, 0] < b[:, 0], -ch, zero),
        torch.where(a[:, 1] < b[:, 1], -cw, zero),
        torch.where(a[:, 2] > b[:, 2], ch, zero),
        torch.where(a[:, 3] > b[:, 3], cw, zero),
    ], 1)
    inter, union, hull = inter[:, None], union[:, None], hull[:, None]
    d_union = d_area - d_inter
    return d_inter / union - inter / union ** 2 * d_union + d_union / hull - union / hull ** 2 * d_hull


class GIoUFunction(Function):
    """Weighted GIoU loss of aligned (N, 4) xyxy boxes of positive area, summed and over avg_factor."""

    @staticmethod
    def forward(ctx, pred, target, weight, avg_factor):
        _, _, _, _, inter, union, hull = _giou_terms(pred, target)
        loss = 2.0 - inter / union - union / hull
        ctx.save_for_backward(pred, target, weight, loss)
        ctx.avg_factor = avg_factor
        return (loss * weight).sum() / avg_factor

    @staticmethod
    def backward(ctx, grad):
        pred, target, weight, loss = ctx.saved_tensors
        grad = grad / ctx.avg_factor
        d_pred = d_target = d_weight = None
        if ctx.needs_input_grad[0]:
            d_pred = -_giou_jac(pred, target) * (weight * grad)[:, None]
        if ctx.needs_input_grad[1]:
            d_target = -_giou_jac(target, pred) * (weight * grad)[:, None]
        if ctx.needs_input_grad[2]:
            d_weight = loss * grad
        return d_pred, d_target, d_weight, None


class GIoULoss(nn.Module):
    def __init__(self, loss_weight=2.0):
        super().__init__()
        self.loss_weight = loss_weight

    def forward(self, pred, target, weight=None, avg_factor=None):
        if weight is None:
            weight = pred.new_ones(pred.shape[0])
        if avg_factor is None:
            avg_factor = max(pred.shape[0], 1)
        return self.loss_weight * GIoUFunction.apply(pred, target, weight, float(avg_factor))


class SoftDiceFunction(Function):
    """Soft dice of softmax(logits), per image and class, classes weighted, images averaged."""

    @staticmethod
    def forward(ctx, logits, labels, class_weight, smooth, ignore_index):
        n, c = logits.shape[:2]
        valid = (labels != ignore_index).unsqueeze(1)
        onehot = F.one_hot(labels.masked_fill(labels == ignore_index, 0), c).movedim(-1, 1)
        onehot = onehot.to(logits.dtype) * valid
        probs = logits.softmax(1)
        dims = tuple(range(2, logits.dim()))
        inter = (probs * onehot).sum(dims)
        denom = (probs * valid).sum(dims) + onehot.sum(dims) + smooth
        score = (2 * inter + smooth) / denom
        cw = class_weight / class_weight.sum()
        ctx.save_for_backward(probs, onehot, valid, score, denom, cw)
        return ((1 - score) * cw).sum(1).mean()

    @staticmethod
    def backward(ctx, grad):
        probs, onehot, valid, score, denom, cw = ctx.saved_tensors
        shape = score.shape + (1,) * (probs.dim() - 2)
        g_score = (-grad * cw).expand_as(score).reshape(shape)
        score, denom = score.reshape(shape), denom.reshape(shape)
        g_probs = g_score * (2 * onehot - score * valid) / denom
        g_logits = probs * (g_probs - (g_probs * probs).sum(1, keepdim=True))
        return g_logits, None, None, None, None


class DiceLoss(nn.Module):
    def __init__(self, num_classes, class_weight=None, smooth=1.0, ignore_index=255):
        super().__init__()
        w = torch.ones(num_classes) if class_weight is None else torch.as_tensor(class_weight)
        self.register_buffer('class_weight', w)
        self.smooth, self.ignore_index = smooth, ignore_index

    def forward(self, logits, labels):
        """logits (N, C, H, W), labels (N, H, W) int64. Class weights are constants."""
        return SoftDiceFunction.apply(logits, labels, self.class_weight.to(logits.dtype),
                                      self.smooth, self.ignore_index)


def make_focal(alpha=0.25, gamma=2.0):
    """Sigmoid focal loss for hard 0/1 targets, elementwise."""

    class _Focal(Function):
        @staticmethod
        def forward(ctx, logits, targets):
            sign = 2 * targets.to(logits.dtype) - 1
            z = logits * sign
            a = torch.where(sign > 0, alpha, 1 - alpha).to(logits.dtype)
            miss = torch.sigmoid(-z)
            nll = F.softplus(-z)
            ctx.save_for_backward(sign, z, a)
            return a * miss ** gamma * nll

        @staticmethod
        def backward(ctx, grad):
            sign, z, a = ctx.saved_tensors
            hit, miss = torch.sigmoid(z), torch.sigmoid(-z)
            dz = -a * miss ** gamma * (gamma * hit * F.softplus(-z) + miss)
            return grad * dz * sign, None

    return _Focal


class FocalLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0, reduction='mean'):
        super().__init__()
        self.fn = make_focal(alpha, gamma)
        self.reduction = reduction

    def forward(self, logits, targets, num_pos=None):
        loss = self.fn.apply(logits, targets)
        if num_pos is not None:
            return loss.sum() / max(float(num_pos), 1.0)
        return {'mean': torch.mean, 'sum': torch.sum, 'none': lambda t: t}[self.reduction](loss)


def _unnormalise(points, h, w, align_corners):
    size = points.new_tensor([w, h])
    if align_corners:
        return (points + 1) * 0.5 * (size - 1)
    return ((points + 1) * size - 1) * 0.5


def _corners(pix, h, w):
    """Flat ids (N, 4, P), inside masks and the fractional parts of the four neighbours."""
    x, y = pix.unbind(-1)
    x0, y0 = x.floor(), y.floor()
    fx, fy = x - x0, y - y0
    xs = torch.stack([x0, x0 + 1, x0, x0 + 1], 1)
    ys = torch.stack([y0, y0, y0 + 1, y0 + 1], 1)
    inside = (xs >= 0) & (xs < w) & (ys >= 0) & (ys < h)
    ids = ys.clamp(0, h - 1).long() * w + xs.clamp(0, w - 1).long()
    return ids, inside, fx, fy


class PointSampleFunction(Function):
    """Bilinear read of feat (N, C, H, W) at points (N, P, 2), xy in [-1, 1], zeros outside."""

    @staticmethod
    def forward(ctx, feat, points, align_corners=False):
        n, c, h, w = feat.shape
        ids, inside, fx, fy = _corners(_unnormalise(points, h, w, align_corners), h, w)
        wts = torch.stack([(1 - fx) * (1 - fy), fx * (1 - fy), (1 - fx) * fy, fx * fy], 1)
        wts = wts * inside
        vals = feat.flatten(2).gather(2, ids.flatten(1).unsqueeze(1).expand(-1, c, -1))
        vals = vals.view(n, c, 4, -1)
        ctx.save_for_backward(vals, ids, inside, wts, fx, fy)
        ctx.size = (h, w)
        ctx.align_corners = align_corners
        return (vals * wts.unsqueeze(1)).sum(2)

    @staticmethod
    def backward(ctx, grad):
        vals, ids, inside, wts, fx, fy = ctx.saved_tensors
        n, c = grad.shape[:2]
        h, w = ctx.size
        g_feat = g_points = None
        if ctx.needs_input_grad[0]:
            spread = (grad.unsqueeze(2) * wts.unsqueeze(1)).flatten(2)
            g_feat = grad.new_zeros(n, c, h * w)
            g_feat.scatter_add_(2, ids.flatten(1).unsqueeze(1).expand(-1, c, -1), spread)
            g_feat = g_feat.view(n, c, h, w)
        if ctx.needs_input_grad[1]:
            v = (vals * inside.unsqueeze(1)).unbind(2)
            dx = (v[1] - v[0]) * (1 - fy).unsqueeze(1) + (v[3] - v[2]) * fy.unsqueeze(1)
            dy = (v[2] - v[0]) * (1 - fx).unsqueeze(1) + (v[3] - v[1]) * fx.unsqueeze(1)
            half = (w - 1) / 2 if ctx.align_corners else w / 2
            g_points = torch.stack([(grad * dx).sum(1), (grad * dy).sum(1)], -1) * half
        return g_feat, g_points, None


class DeformableHead(nn.Module):
    """Reads K learned offsets round every query point and mixes them."""

    def __init__(self, channels, k=4):
        super().__init__()
        self.k = k
        self.offset = nn.Linear(channels, 2 * k)
        self.mix = nn.Linear(channels * k, channels)

    def forward(self, feat, query, ref):
        # feat (N, C, H, W), query (N, Q, C), ref (N, Q, 2)
        n, q, c = query.shape
        pts = ref.unsqueeze(2) + 0.1 * self.offset(query).view(n, q, self.k, 2)
        out = PointSampleFunction.apply(feat, pts.flatten(1, 2), False)
        return self.mix(out.view(n, c, q, self.k).permute(0, 2, 3, 1).flatten(2))


class BoxVoteFunction(Function):
    """Merge each cluster's boxes, weighted by score ** power (scores in (0, 1]); also the cluster's weighted score."""

    @staticmethod
    def forward(ctx, boxes, scores, cluster, num_clusters, power=1.0):
        wts = scores ** power
        total = wts.new_zeros(num_clusters).index_add_(0, cluster, wts).clamp(min=EPS)
        merged = boxes.new_zeros(num_clusters, 4).index_add_(0, cluster, boxes * wts[:, None])
        merged = merged / total[:, None]
        conf = scores.new_zeros(num_clusters).index_add_(0, cluster, wts * scores) / total
        ctx.save_for_backward(boxes, scores, cluster, wts, total, merged, conf)
        ctx.power = power
        return merged, conf

    @staticmethod
    def backward(ctx, g_merged, g_conf):
        boxes, scores, cluster, wts, total, merged, conf = ctx.saved_tensors
        share = wts / total[cluster]
        g_boxes = g_merged[cluster] * share[:, None]
        g_wts = (g_merged[cluster] * (boxes - merged[cluster])).sum(1)
        g_wts = (g_wts + g_conf[cluster] * (scores - conf[cluster])) / total[cluster]
        g_scores = g_wts * ctx.power * scores ** (ctx.power - 1) + g_conf[cluster] * share
        return g_boxes, g_scores, None, None, None


def vote_boxes(boxes, scores, iou_thr=0.6, power=2.0):
    """Greedy clustering by IoU (no gradient), then soft voting inside the clusters."""
    order = scores.detach().argsort(descending=True)
    cluster = torch.full((len(scores),), -1, dtype=torch.long, device=boxes.device)
    k = 0
    for i in order.tolist():
        if cluster[i] >= 0:
            continue
        _, _, _, _, inter, union, _ = _giou_terms(boxes[i:i + 1].detach().expand_as(boxes), boxes.detach())
        cluster[(inter / union >= iou_thr) & (cluster < 0)] = k
        cluster[i] = k
        k += 1
    return BoxVoteFunction.apply(boxes, scores, cluster, k, power)
