"""Feature layers: activations, normalisers, retention and low-bit activations."""
import torch
from torch import nn
from torch.autograd import Function


def _channel_view(p, x):
    """Shape a ``(C,)`` parameter to broadcast against ``(N, C, ...)``."""
    return p.view((1, -1) + (1,) * (x.dim() - 2))


def _over_channels(t):
    """Sum everything but axis 1."""
    return t.sum([d for d in range(t.dim()) if d != 1])


class WeightedSquaredReLUFn(Function):
    """``relu(x)**2 * weights``: expert activation with router weights, one per token.

    Parameters
    ----------
    x : Tensor, shape (..., features)
    weights : Tensor, shape (...) or None
    """

    @staticmethod
    def forward(ctx, x, weights=None):
        r = torch.relu(x)
        ctx.save_for_backward(r, weights)
        if weights is None:
            return r * r
        return r * r * weights.unsqueeze(-1)

    @staticmethod
    def backward(ctx, g):
        r, weights = ctx.saved_tensors
        if weights is None:
            return 2 * r * g, None
        return 2 * r * g * weights.unsqueeze(-1), (g * r * r).sum(-1)


class SReLUFunction(Function):
    """S-shaped rectifier with a learned knee and slope on either side, per channel.

    ``t_r + a_r (x - t_r)`` for ``x >= t_r``, ``x`` between the knees and
    ``t_l + a_l (x - t_l)`` for ``x <= t_l``. Inputs are ``(N, C, ...)``, parameters ``(C,)``.
    """

    @staticmethod
    def forward(ctx, x, t_right, a_right, t_left, a_left):
        tr, ar, tl, al = (_channel_view(p, x) for p in (t_right, a_right, t_left, a_left))
        ctx.save_for_backward(x, t_right, a_right, t_left, a_left)
        y = torch.where(x >= tr, tr + ar * (x - tr), x)
        return torch.where(x <= tl, tl + al * (x - tl), y)

    @staticmethod
    def backward(ctx, g):
        x, *params = ctx.saved_tensors
        tr, ar, tl, al = (_channel_view(p, x) for p in params)
        hi = (x >= tr).to(x.dtype)
        lo = (x <= tl).to(x.dtype)
        mid = 1 - hi - lo
        gx = g * (hi * ar + mid + lo * al)
        g_tr = _over_channels(g * hi)
        g_ar = _over_channels(g * hi * (x - tr))
        g_tl = _over_channels(g * lo)
        g_al = _over_channels(g * lo * (x - tl))
        return gx, g_tr, g_ar, g_tl, g_al


class SReLU(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.t_right = nn.Parameter(torch.full((channels,), 0.8))
        self.a_right = nn.Parameter(torch.full((channels,), 0.5))
        self.t_left = nn.Parameter(torch.full((channels,), -0.8))
        self.a_left = nn.Parameter(torch.full((channels,), 0.2))

    def forward(self, x):
        return SReLUFunction.apply(x, self.t_right, self.a_right, self.t_left, self.a_left)


def _standardise(x, dims, eps):
    mean = x.mean(dims, keepdim=True)
    var = x.var(dims, unbiased=False, keepdim=True)
    rstd = torch.rsqrt(var + eps)
    return (x - mean) * rstd, rstd


class BatchInstanceNormFunction(Function):
    """Gated mix of batch and instance normalisation for ``(N, C, H, W)``.

    ``y = gamma * (rho * BN(x) + (1 - rho) * IN(x)) + beta`` with all three parameters ``(C,)``.
    """

    @staticmethod
    def forward(ctx, x, rho, gamma, beta, eps=1e-5):
        bn, bn_rstd = _standardise(x, (0, 2, 3), eps)
        inorm, in_rstd = _standardise(x, (2, 3), eps)
        r = rho.view(1, -1, 1, 1)
        mixed = r * bn + (1 - r) * inorm
        ctx.save_for_backward(bn, inorm, bn_rstd, in_rstd, rho, gamma)
        return mixed * gamma.view(1, -1, 1, 1) + beta.view(1, -1, 1, 1)

    @staticmethod
    def backward(ctx, grad):
        bn, inorm, bn_rstd, in_rstd, rho, gamma = ctx.saved_tensors
        r = rho.view(1, -1, 1, 1)
        g = grad * gamma.view(1, -1, 1, 1)
        g_beta = _over_channels(grad)
        g_gamma = _over_channels(grad * (r * bn + (1 - r) * inorm))
        g_rho = _over_channels(g * (bn - inorm))

        dims = (0, 2, 3)
        g_bn = g * r
        g_in = g * (1 - r)
        gx = bn_rstd * (g_bn - g_bn.mean(dims, keepdim=True)
                        - bn * (g_bn * bn).mean(dims, keepdim=True))
        gx = gx + in_rstd * (g_in - g_in.mean(dims, keepdim=True)
                             - inorm * (g_in * inorm).mean(dims, keepdim=True))
        return gx, g_rho, g_gamma, g_beta, None


class GroupWhitening(Function):
    # ZCA whitening of (N, C) features, separately in each of `groups` slices of C.
    @staticmethod
    def forward(ctx, x, groups=1, eps=1e-3):
        n, c = x.shape
        xg = x.view(n, groups, c // groups).transpose(0, 1)
        xc = xg - xg.mean(1, keepdim=True)
        eye = torch.eye(c // groups, dtype=x.dtype, device=x.device)
        cov = xc.transpose(1, 2) @ xc / n + eps * eye
        lam, u = torch.linalg.eigh(cov)
        root = lam.sqrt()
        w = (u / root.unsqueeze(-2)) @ u.transpose(1, 2)
        ctx.save_for_backward(xc, w, u, root)
        return (xc @ w).transpose(0, 1).reshape(n, c)

    @staticmethod
    def backward(ctx, g):
        xc, w, u, root = ctx.saved_tensors
        groups, n, d = xc.shape
        gg = g.view(n, groups, d).transpose(0, 1)
        gw = xc.transpose(1, 2) @ gg
        gw = 0.5 * (gw + gw.transpose(1, 2))
        ri, rj = root.unsqueeze(-1), root.unsqueeze(-2)
        inner = -(u.transpose(1, 2) @ gw @ u) / (ri * rj * (ri + rj))
        gcov = u @ inner @ u.transpose(1, 2)
        gxc = gg @ w + (2.0 / n) * (xc @ gcov)
        gx = gxc - gxc.mean(1, keepdim=True)
        return gx.transpose(0, 1).reshape(n, groups * d), None, None


def _decay_matrix(log_decay, n_query, n_key, offset):
    """``exp(log_decay * (i + offset - j))`` where ``j <= i + offset``, else zero."""
    i = torch.arange(n_query, device=log_decay.device)[:, None] + offset
    j = torch.arange(n_key, device=log_decay.device)[None, :]
    lag = (i - j).to(log_decay.dtype)
    decay = torch.exp(log_decay[:, None, None] * lag.clamp_min(0))
    return torch.where(lag >= 0, decay, torch.zeros_like(decay)), lag.clamp_min(0)


class RetentionFunction(Function):
    """Parallel form of retention.

    Args:
        q: "batch heads queries dim"
        k: "batch heads keys dim"
        v: "batch heads keys value_dim"
        log_decay: "heads", negative.
        offset: absolute position of the first query; the number of keys that
            came from the cache when decoding in pieces.
    """

    @staticmethod
    def forward(ctx, q, k, v, log_decay, offset=0):
        decay, _ = _decay_matrix(log_decay, q.shape[-2], k.shape[-2], offset)
        scale = q.shape[-1] ** -0.5
        ctx.save_for_backward(q, k, v, log_decay)
        ctx.scale = scale
        return ((q @ k.transpose(-1, -2)) * decay * scale) @ v

    @staticmethod
    def backward(ctx, g):
        q, k, v, log_decay = ctx.saved_tensors
        decay, lag = _decay_matrix(log_decay, q.shape[-2], k.shape[-2], 0)
        raw = (q @ k.transpose(-1, -2)) * ctx.scale
        d_att = g @ v.transpose(-1, -2)
        d_raw = d_att * decay * ctx.scale
        dq = d_raw @ k
        dk = d_raw.transpose(-1, -2) @ q
        dv = (raw * decay).transpose(-1, -2) @ g
        d_log_decay = (d_att * raw * decay * lag).sum((0, 2, 3))
        return dq, dk, dv, d_log_decay, None


class BinaryActivationSteFn(Function):
    """Binary activation ``sign(x) * alpha`` with a scale per channel.

    The sign is passed straight through where ``|x| <= 1`` and blocked elsewhere
    (``grad_x = grad * alpha * (|x| <= 1)``). The scale gets its ordinary gradient.
    """

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.save_for_backward(x, alpha)
        s = torch.where(x >= 0, torch.ones_like(x), -torch.ones_like(x))
        return s * _channel_view(alpha, x)

    @staticmethod
    def backward(ctx, g):
        x, alpha = ctx.saved_tensors
        inside = (x.abs() <= 1).to(x.dtype)
        gx = g * _channel_view(alpha, x) * inside
        galpha = _over_channels(g * x.clamp(-1, 1))
        return gx, galpha


class OffsetFakeQuantSteFn(Function):
    """Fake quantisation with learned scale and offset (straight-through rounding).

    ``y = clamp(round((x - offset) / scale), qmin, qmax) * scale + offset``. In the backward pass
    rounding counts as the identity; the clamp is differentiated as it is. ``scale`` and ``offset``
    are scalars or ``(C,)`` for inputs ``(N, C, ...)``.
    """

    @staticmethod
    def forward(ctx, x, scale, offset, qmin=-128, qmax=127):
        per_channel = scale.dim() == 1
        s, o = (_channel_view(scale, x), _channel_view(offset, x)) if per_channel else (scale, offset)
        v = (x - o) / s
        q = torch.round(v)
        inside = (q >= qmin) & (q <= qmax)
        q = q.clamp(qmin, qmax)
        ctx.save_for_backward(v, q, inside)
        ctx.per_channel = per_channel
        return q * s + o

    @staticmethod
    def backward(ctx, g):
        v, q, inside = ctx.saved_tensors
        zero = torch.zeros_like(g)
        gx = torch.where(inside, g, zero)
        gs = g * torch.where(inside, q - v, q)
        go = torch.where(inside, zero, g)
        if ctx.per_channel:
            return gx, _over_channels(gs), _over_channels(go), None, None
        return gx, gs.sum(), go.sum(), None, None
