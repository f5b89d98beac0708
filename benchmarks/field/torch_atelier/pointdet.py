"""Ops for the point-cloud branch and the dense heads."""
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function

VOID = 255


def knn(xyz, ref, k):
    """indices (B, N, k) and squared distances of the k nearest `ref` points"""
    d = torch.cdist(xyz, ref).square()
    d, idx = d.topk(k, dim=-1, largest=False)
    return idx, d


def _gather_points(feat, idx):
    # feat (B, C, M), idx (B, N, K) -> (B, C, N, K)
    b, c, _ = feat.shape
    n, k = idx.shape[1:]
    return feat.gather(2, idx.reshape(b, 1, n * k).expand(b, c, n * k)).view(b, c, n, k)


class ThreeInterpolate(Function):
    """Weighted sum of neighbour features, (B, C, M) -> (B, C, N)."""

    @staticmethod
    def forward(feat, idx, weight):
        return (_gather_points(feat, idx) * weight.unsqueeze(1)).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        feat, idx, weight = inputs
        ctx.save_for_backward(feat, idx, weight)

    @staticmethod
    def backward(ctx, grad):
        feat, idx, weight = ctx.saved_tensors
        d_feat = d_weight = None
        if ctx.needs_input_grad[0]:
            b, c, m = feat.shape
            contrib = (grad.unsqueeze(-1) * weight.unsqueeze(1)).reshape(b, c, -1)
            where = idx.reshape(b, 1, -1).expand_as(contrib)
            d_feat = torch.zeros_like(feat).scatter_add(2, where, contrib)
        if ctx.needs_input_grad[2]:
            d_weight = (grad.unsqueeze(-1) * _gather_points(feat, idx)).sum(1)
        return d_feat, None, d_weight


class EdgeMax(Function):
    """max_k (f[idx[n, k]] - f[n]); also gives the winning point ids."""

    @staticmethod
    def forward(feat, idx):
        val, slot = _gather_points(feat, idx).max(-1)
        b, c, n = val.shape
        ids = idx.unsqueeze(1).expand(b, c, n, idx.shape[-1])
        winner = ids.gather(3, slot.unsqueeze(-1)).squeeze(-1)
        return val - feat, winner

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, winner = output
        ctx.mark_non_differentiable(winner)
        ctx.save_for_backward(winner)

    @staticmethod
    def backward(ctx, grad, _):
        winner, = ctx.saved_tensors
        d_feat = torch.zeros_like(grad).scatter_(2, winner, grad)
        return d_feat - grad, None


def _corners(pts, h, w, scale, aligned):
    p = pts * scale - (0.5 if aligned else 0.0)
    x, y = p.unbind(-1)
    x0, y0 = x.floor(), y.floor()
    fx, fy = x - x0, y - y0
    x0, y0 = x0.long(), y0.long()
    out = []
    for dy in (0, 1):
        for dx in (0, 1):
            xi, yi = x0 + dx, y0 + dy
            inside = (xi >= 0) & (xi < w) & (yi >= 0) & (yi < h)
            lin = yi.clamp(0, h - 1) * w + xi.clamp(0, w - 1)
            wx = fx if dx else 1 - fx
            wy = fy if dy else 1 - fy
            out.append((dx, dy, lin, inside.to(pts.dtype), wx, wy))
    return out


class BilinearSample(Function):
    """Read (B, C, H, W) at image-space (x, y) points (B, P, 2); zero outside the map.

    spatial_scale is map size / image size (1 / stride), aligned puts pixel
    centres at .5 as in RoIAlign.
    """

    @staticmethod
    def forward(fmap, pts, spatial_scale=1.0, aligned=True):
        b, c, h, w = fmap.shape
        flat = fmap.flatten(2)
        out = 0.0
        for _, _, lin, inside, wx, wy in _corners(pts, h, w, spatial_scale, aligned):
            v = flat.gather(2, lin.unsqueeze(1).expand(b, c, -1))
            out = out + v * (inside * wx * wy).unsqueeze(1)
        return out

    @staticmethod
    def setup_context(ctx, inputs, output):
        fmap, pts, ctx.spatial_scale, ctx.aligned = inputs
        ctx.save_for_backward(fmap, pts)

    @staticmethod
    def backward(ctx, grad):
        fmap, pts = ctx.saved_tensors
        b, c, h, w = fmap.shape
        flat = fmap.flatten(2)
        d_map = torch.zeros_like(flat)
        gx = gy = 0.0
        for dx, dy, lin, inside, wx, wy in _corners(pts, h, w, ctx.spatial_scale, ctx.aligned):
            where = lin.unsqueeze(1).expand(b, c, -1)
            d_map.scatter_add_(2, where, grad * (inside * wx * wy).unsqueeze(1))
            gv = (grad * flat.gather(2, where)).sum(1) * inside
            gx = gx + gv * wy * (2 * dx - 1)
            gy = gy + gv * wx * (2 * dy - 1)
        d_pts = torch.stack([gx, gy], dim=-1)
        return d_map.view_as(fmap), d_pts, None, None


class SigmoidFocal(Function):
    """Focal loss on (N, C) logits; label C is background, -1 is ignored.

    'mean' divides by the number of foreground rows (at least one).
    """

    @staticmethod
    def forward(logits, labels, alpha=0.25, gamma=2.0, reduction="mean"):
        sign, coef, pos = SigmoidFocal._setup(logits, labels, alpha)
        z = logits * sign
        loss = -coef * torch.sigmoid(-z).pow(gamma) * F.logsigmoid(z)
        if reduction == "none":
            return loss
        if reduction == "sum":
            return loss.sum()
        return loss.sum() / pos

    @staticmethod
    def _setup(logits, labels, alpha):
        c = logits.shape[1]
        hot = (labels[:, None] == torch.arange(c, device=labels.device)).to(logits.dtype)
        coef = alpha * hot + (1 - alpha) * (1 - hot)
        coef = coef * (labels >= 0).to(logits.dtype)[:, None]
        pos = ((labels >= 0) & (labels < c)).sum().clamp(min=1)
        return 2 * hot - 1, coef, pos

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, labels, ctx.alpha, ctx.gamma, ctx.reduction = inputs
        ctx.save_for_backward(logits, labels)

    @staticmethod
    def backward(ctx, grad):
        logits, labels = ctx.saved_tensors
        sign, coef, pos = SigmoidFocal._setup(logits, labels, ctx.alpha)
        z = logits * sign
        p, q = torch.sigmoid(z), torch.sigmoid(-z)
        d = sign * coef * q.pow(ctx.gamma) * (ctx.gamma * p * F.logsigmoid(z) - q)
        if ctx.reduction == "mean":
            d = d / pos
        return d * grad, None, None, None, None


class SoftmaxDice(Function):
    """1 - mean soft Dice of (B, C, H, W) logits against (B, H, W) labels.

    Dice is taken per image and class, or per class over the whole batch when
    `batch_dice` is set. VOID pixels take no part. `square` uses p**2 in the
    denominator (V-Net).
    """

    @staticmethod
    def _sums(prob, target, smooth, batch_dice, square):
        keep = (target != VOID).unsqueeze(1).to(prob.dtype)
        hot = F.one_hot(target.masked_fill(target == VOID, 0), prob.shape[1])
        hot = hot.movedim(-1, 1).to(prob.dtype) * keep
        dims = (0, 2, 3) if batch_dice else (2, 3)
        inter = (prob * hot).sum(dims, keepdim=True)
        psum = ((prob * prob if square else prob) * keep).sum(dims, keepdim=True)
        num = 2 * inter + smooth
        den = psum + hot.sum(dims, keepdim=True) + smooth
        return num, den, hot, keep

    @staticmethod
    def forward(logits, target, smooth=1.0, batch_dice=False, square=False):
        prob = logits.softmax(1)
        num, den, _, _ = SoftmaxDice._sums(prob, target, smooth, batch_dice, square)
        return 1 - (num / den).mean()

    @staticmethod
    def setup_context(ctx, inputs, output):
        logits, target, *ctx.opts = inputs
        ctx.save_for_backward(logits, target)

    @staticmethod
    def backward(ctx, grad):
        logits, target = ctx.saved_tensors
        prob = logits.softmax(1)
        num, den, hot, keep = SoftmaxDice._sums(prob, target, *ctx.opts)
        dpsum = 2 * prob * keep if ctx.opts[2] else keep
        d_prob = -(2 * hot / den - num / den.square() * dpsum) / logits.shape[1]
        d = prob * (d_prob - (d_prob * prob).sum(1, keepdim=True))
        return grad * d, None, None, None, None


class FeaturePropagation(nn.Module):
    """Carry coarse features to the dense set by inverse distance (PointNet++)."""

    def __init__(self, c_in, c_out):
        super().__init__()
        self.mlp = nn.Conv1d(c_in, c_out, 1)

    def forward(self, xyz, xyz_coarse, feat_coarse):
        idx, d2 = knn(xyz, xyz_coarse, 3)
        w = 1.0 / (d2 + 1e-8)
        w = w / w.sum(-1, keepdim=True)
        return self.mlp(ThreeInterpolate.apply(feat_coarse, idx, w))


class EdgeBlock(nn.Module):
    def __init__(self, c_in, c_out, k=8):
        super().__init__()
        self.k = k
        self.point = nn.Conv1d(c_in, c_out, 1)
        self.edge = nn.Conv1d(c_in, c_out, 1, bias=False)

    def forward(self, xyz, feat):
        idx, _ = knn(xyz, xyz, self.k)
        rel, _ = EdgeMax.apply(self.edge(feat), idx)
        return F.relu(self.point(feat) + rel)


class PointPainter(nn.Module):
    """Append image features at the projected points, with a learned offset."""

    def __init__(self, c_feat, stride=4):
        super().__init__()
        self.stride = stride
        self.offset = nn.Conv1d(c_feat, 2, 1)

    def forward(self, fmap, feat, uv):
        uv = uv + self.offset(feat).transpose(1, 2)
        img = BilinearSample.apply(fmap, uv, 1.0 / self.stride, True)
        return torch.cat([feat, img], 1)


class DenseLoss(nn.Module):
    def __init__(self, alpha=0.25, gamma=2.0, dice_weight=1.0, batch_dice=False):
        super().__init__()
        self.alpha, self.gamma = alpha, gamma
        self.dice_weight, self.batch_dice = dice_weight, batch_dice

    def forward(self, cls_logits, cls_labels, seg_logits, seg_labels):
        cls = SigmoidFocal.apply(cls_logits, cls_labels, self.alpha, self.gamma, "mean")
        seg = SoftmaxDice.apply(seg_logits, seg_labels, 1.0, self.batch_dice, False)
        return cls + self.dice_weight * seg
