# Layers of the on-device network of a battery-driven video doorbell.
#
# The chip multiplies by shifting, so weights are powers of two; feature maps are pooled by softmax
# weights and by alarm zones; a slow background is taken off every channel.
import torch
import torch.nn as nn


def _pair(v):
    return (v, v) if isinstance(v, int) else tuple(v)


class PowerOfTwoShift(torch.autograd.Function):
    """Round weights to signed powers of two for the shift-only multiplier.

    The exponent is rounded in the log domain and held in [lo, hi]; magnitudes below half of 2**lo
    become zero.  Rounding has no useful derivative: the backward pass is deliberately a
    straight-through estimator, i.e. the incoming gradient is handed on unchanged where
    |w| <= 2**hi and is zero for weights beyond it.
    """

    @staticmethod
    def forward(ctx, w, lo=-6, hi=0):
        ctx.save_for_backward(w)
        ctx.hi = hi
        mag = w.abs()
        expo = torch.log2(mag.clamp(min=2.0 ** (lo - 2))).round().clamp(lo, hi)
        q = torch.sign(w) * 2.0**expo
        return torch.where(mag < 2.0 ** (lo - 1), torch.zeros_like(q), q)

    @staticmethod
    def backward(ctx, g):
        (w,) = ctx.saved_tensors
        return g * (w.abs() <= 2.0**ctx.hi), None, None


class SoftWindowPool(torch.autograd.Function):
    """Pool each window by its own softmax weights: sum(exp(x) x) / sum(exp(x)).

    x: N,C,H,W.  kernel: int or (kh, kw).  stride: int or pair, None means the kernel size.
    Rows and columns that fill no whole window are left out.
    """

    @staticmethod
    def forward(ctx, x, kernel, stride=None):
        kh, kw = _pair(kernel)
        sh, sw = (kh, kw) if stride is None else _pair(stride)
        win = x.unfold(2, kh, sh).unfold(3, kw, sw)          # N,C,Ho,Wo,kh,kw
        weight = torch.softmax(win.flatten(-2), -1).view(win.shape)
        y = (weight * win).sum((-2, -1))
        ctx.save_for_backward(x, y, weight)
        ctx.geometry = (kh, kw, sh, sw)
        return y

    @staticmethod
    def backward(ctx, g):
        x, y, weight = ctx.saved_tensors
        kh, kw, sh, sw = ctx.geometry
        ho, wo = y.shape[2:]
        gx = torch.zeros_like(x)
        for i in range(kh):
            for j in range(kw):
                rows = slice(i, i + sh * (ho - 1) + 1, sh)
                cols = slice(j, j + sw * (wo - 1) + 1, sw)
                xi = x[:, :, rows, cols]
                gx[:, :, rows, cols] = g * weight[..., i, j] * (1 + xi - y)
        return gx, None, None


class ZoneAttentionPool(torch.autograd.Function):
    """One vector per alarm zone (drive, path, neighbour's garden, ...).

    x: N,C,H,W features; logits: N,H,W importance of every pixel; zones: H,W integer map drawn by the
    owner, -1 where no zone is.  In each zone the logits are turned to weights by a softmax over the
    zone's own pixels.  default: zones,C stands in for zones that own no pixel at this resolution.
    Gives N,zones,C.
    """

    @staticmethod
    def forward(ctx, x, logits, zones, default):
        nz = default.shape[0]
        member = zones.flatten() == torch.arange(nz, device=zones.device)[:, None]    # zones,HW
        empty = ~member.any(1)
        a = logits.flatten(1)[:, None, :].masked_fill(~member, float("-inf"))
        a = a.masked_fill(empty[:, None], 0.0)
        a = torch.softmax(a, -1) * member
        pooled = torch.einsum("nzp,ncp->nzc", a, x.flatten(2))
        ctx.save_for_backward(x, a, empty, pooled)
        return torch.where(empty[:, None], default, pooled)

    @staticmethod
    def backward(ctx, g):
        x, a, empty, pooled = ctx.saved_tensors
        g_default = g.sum(0) * empty[:, None]
        g_x = torch.einsum("nzp,nzc->ncp", a, g).view_as(x)
        score = torch.einsum("nzc,ncp->nzp", g, x.flatten(2)) - (g * pooled).sum(-1, keepdim=True)
        g_logits = (a * score).sum(1).view(x.shape[0], *x.shape[2:])
        return g_x, g_logits, None, g_default


class BackgroundFade(torch.autograd.Function):
    """Take a slowly following background off every channel.

        b[t] = k b[t-1] + (1 - k) x[t],     y[t] = x[t] - b[t]

    x is (batch, time, channel), k = sigmoid(logit) per channel.  ``start`` (batch, channel) is the
    background kept from the previous clip; without one the first frame is the background.
    Returns the foreground y and the last background.
    """

    @staticmethod
    def forward(ctx, x, logit, start=None):
        k = torch.sigmoid(logit)
        b = x[:, 0] if start is None else start
        trail = [b]
        for t in range(x.shape[1]):
            b = k * b + (1 - k) * x[:, t]
            trail.append(b)
        trail = torch.stack(trail, 1)
        ctx.save_for_backward(x, k, trail)
        ctx.has_start = start is not None
        return x - trail[:, 1:], b

    @staticmethod
    def backward(ctx, gy, gb):
        x, k, trail = ctx.saved_tensors
        gx = gy.clone()
        gk = torch.zeros_like(k)
        carry = gb
        for t in range(x.shape[1] - 1, -1, -1):
            carry = carry - gy[:, t]
            gx[:, t] += (1 - k) * carry
            gk = gk + (carry * (trail[:, t] - x[:, t])).sum(0)
            carry = k * carry
        return gx, gk * k * (1 - k), carry if ctx.has_start else None


class DoorbellStem(nn.Module):
    def __init__(self, channels=8, zones=4):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 3, 3, 3) * 0.2)
        self.importance = nn.Conv2d(channels, 1, 1)
        self.default = nn.Parameter(torch.zeros(zones, channels))

    def forward(self, frames, zones):
        """zones: integer map at half the resolution of the frames."""
        h = nn.functional.conv2d(frames, PowerOfTwoShift.apply(self.weight), padding=1)
        h = SoftWindowPool.apply(h, 2)
        return ZoneAttentionPool.apply(h, self.importance(h)[:, 0], zones, self.default)


if __name__ == "__main__":
    print(DoorbellStem()(torch.rand(1, 3, 32, 48), torch.randint(-1, 4, (16, 24))).shape)
