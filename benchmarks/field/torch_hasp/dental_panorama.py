"""Segmentation of teeth in dental panoramas (wide, low X-ray images)."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.autograd import Function

IGNORE = -1  # label of pixels which the dentist left open


class ToothBalancedCE(Function):
    """Cross entropy in which every kind of tooth counts the same.

    logits (batch, kinds, height, width), labels (batch, height, width) with
    ``IGNORE`` for open pixels.  For each kind that occurs in the labels of the
    batch the mean loss of its pixels is taken; the result is the mean of those.
    """

    @staticmethod
    def forward(ctx, logits, labels, smoothing=0.0):
        kinds = logits.shape[1]
        log_p = F.log_softmax(logits, 1).movedim(1, -1).reshape(-1, kinds)
        flat = labels.reshape(-1)
        keep = flat != IGNORE
        safe = flat.clamp(min=0)
        hard = log_p.gather(1, safe[:, None]).squeeze(1)
        loss = -(1 - smoothing) * hard - smoothing * log_p.mean(1)
        counts = torch.bincount(flat[keep], minlength=kinds)
        present = int((counts > 0).sum())
        share = keep.to(logits.dtype) / counts.clamp(min=1)[safe]
        ctx.save_for_backward(logits, labels, counts)
        ctx.smoothing = smoothing
        return (share * loss).sum() / max(present, 1)

    @staticmethod
    def backward(ctx, grad):
        logits, labels, counts = ctx.saved_tensors
        kinds = logits.shape[1]
        safe = labels.clamp(min=0)
        target = F.one_hot(safe, kinds).movedim(-1, 1).to(logits.dtype)
        target = (1 - ctx.smoothing) * target + ctx.smoothing / kinds
        share = (labels != IGNORE).to(logits.dtype) / (counts.clamp(min=1)[safe] * kinds)
        return grad * share[:, None] * (logits.softmax(1) - target), None, None


class JawGate(Function):
    """Gate each pixel by the mean brightness of its row and of its column.

    x: (batch, channels, height, width); along, across, bias: (channels,)::

        gate = sigmoid(along * mean_of_row + across * mean_of_column + bias)
        out = x * gate
    """

    @staticmethod
    def forward(ctx, x, along, across, bias):
        c = lambda p: p.view(1, -1, 1, 1)
        rows, cols = x.mean(3, keepdim=True), x.mean(2, keepdim=True)
        gate = torch.sigmoid(c(along) * rows + c(across) * cols + c(bias))
        ctx.save_for_backward(x, along, across, gate)
        return x * gate

    @staticmethod
    def backward(ctx, grad):
        x, along, across, gate = ctx.saved_tensors
        h, w = x.shape[-2:]
        c = lambda p: p.view(1, -1, 1, 1)
        rows, cols = x.mean(3, keepdim=True), x.mean(2, keepdim=True)
        inner = grad * x * gate * (1 - gate)
        by_row, by_col = inner.sum(3, keepdim=True), inner.sum(2, keepdim=True)
        d_x = grad * gate + c(along) * by_row / h + c(across) * by_col / w
        d_along = (by_row * rows).sum((0, 2, 3))
        d_across = (by_col * cols).sum((0, 2, 3))
        return d_x, d_along, d_across, inner.sum((0, 2, 3))


class EvenKernel(Function):
    """Give every output filter zero mean and a set spread over its fan-in.

    weight: (out, ...) of any rank of two or more; gain: (out,).

    unbiased: divide the squares by n - 1 in place of n.
    fan_scale: divide by sqrt(n) too, so that responses keep their size.
    """

    @staticmethod
    def forward(ctx, weight, gain, eps=1e-6, unbiased=False, fan_scale=True):
        flat = weight.flatten(1)
        n = flat.shape[1]
        m = max(n - 1, 1) if unbiased else n
        dev = flat - flat.mean(1, keepdim=True)
        scale = gain[:, None] * (n**-0.5 if fan_scale else 1.0)
        ctx.save_for_backward(weight, gain)
        ctx.options = (eps, m, fan_scale)
        return (dev * torch.rsqrt(dev.square().sum(1, keepdim=True) / m + eps) * scale).view_as(weight)

    @staticmethod
    def backward(ctx, grad):
        weight, gain = ctx.saved_tensors
        eps, m, fan_scale = ctx.options
        flat = weight.flatten(1)
        n = flat.shape[1]
        grad = grad.reshape(flat.shape) * (n**-0.5 if fan_scale else 1.0)
        dev = flat - flat.mean(1, keepdim=True)
        r = torch.rsqrt(dev.square().sum(1, keepdim=True) / m + eps)
        d_gain = (grad * dev * r).sum(1)
        up = grad * gain[:, None]
        d_dev = r * up - dev * r**3 * (up * dev).sum(1, keepdim=True) / m
        d_flat = d_dev - d_dev.mean(1, keepdim=True)
        return d_flat.view_as(weight), d_gain, None, None, None


class GreySnap(Function):
    """Snap brightness to the grey levels of the sensor, 0 .. levels - 1 steps.

    Rounding has no useful derivative, so a straight-through estimate is used on
    purpose: the gradient passes unchanged where the brightness lies within the
    sensor's range (both ends included) and is zero where it is clipped.
    """

    @staticmethod
    def forward(ctx, image, step, levels):
        ctx.save_for_backward(image)
        ctx.top = step * (levels - 1)
        return (image / step).round().clamp(0, levels - 1) * step

    @staticmethod
    def backward(ctx, grad):
        (image,) = ctx.saved_tensors
        inside = (image >= 0) & (image <= ctx.top)
        return grad * inside, None, None


class EvenConv(nn.Conv2d):
    def __init__(self, *args, unbiased=False, **kwargs):
        super().__init__(*args, **kwargs)
        self.gain = nn.Parameter(torch.ones(self.out_channels))
        self.unbiased = unbiased

    def forward(self, x):
        weight = EvenKernel.apply(self.weight, self.gain, 1e-6, self.unbiased, True)
        return self._conv_forward(x, weight, self.bias)


class PanoramaNet(nn.Module):
    def __init__(self, kinds=9, channels=8):
        super().__init__()
        self.stem = EvenConv(1, channels, 3, padding=1)
        self.along, self.across, self.bias = (nn.Parameter(torch.zeros(channels)) for _ in range(3))
        self.head = nn.Conv2d(channels, kinds, 1)

    def forward(self, image):
        x = GreySnap.apply(image, 1 / 255, 256)
        x = F.relu(self.stem(x))
        return self.head(JawGate.apply(x, self.along, self.across, self.bias))

    def loss(self, image, labels, smoothing=0.05):
        return ToothBalancedCE.apply(self(image), labels, smoothing)
