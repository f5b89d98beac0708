import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class LinearFunction(Function):
    """y = x W^T + b on the last axis; every leading axis is a batch axis."""

    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight)
        ctx.has_bias = bias is not None
        out = input.reshape(-1, input.shape[-1]).mm(weight.t())
        if bias is not None:
            out += bias
        return out.view(*input.shape[:-1], weight.shape[0])

    @staticmethod
    def backward(ctx, grad_output):
        input, weight = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        g2 = grad_output.reshape(-1, grad_output.shape[-1])
        if ctx.needs_input_grad[0]:
            grad_input = g2.mm(weight).view(input.shape)
        if ctx.needs_input_grad[1]:
            grad_weight = g2.t().mm(input.reshape(-1, input.shape[-1]))
        if ctx.has_bias and ctx.needs_input_grad[2]:
            grad_bias = g2.sum(0)
        return grad_input, grad_weight, grad_bias


class SwiGLUMLP(Function):
    """Fused LLaMA MLP: ``(silu(x @ w1) * (x @ w3)) @ w2``.

    Recomputes the hidden activations in the backward pass.

    Shapes: x (..., D), w1 (D, F), w3 (D, F), w2 (F, D).
    """

    @staticmethod
    def forward(x, w1, w3, w2):
        return (F.silu(x @ w1) * (x @ w3)) @ w2

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, dy):
        x, w1, w3, w2 = ctx.saved_tensors
        a = x @ w1
        b = x @ w3
        sig = torch.sigmoid(a)
        s = a * sig
        dh = dy @ w2.t()
        da = dh * b * (sig + s * (1 - sig))
        db = dh * s
        dx = da @ w1.t() + db @ w3.t()

        def outer(l, r):
            return l.reshape(-1, l.shape[-1]).t() @ r.reshape(-1, r.shape[-1])

        return dx, outer(x, da), outer(x, db), outer(s * b, dy)


def make_glu(act, dact):
    """Gated linear unit ``value * act(gate)`` for an activation and its derivative."""

    class _GLU(Function):
        @staticmethod
        def forward(ctx, value, gate):
            ctx.save_for_backward(value, gate)
            return value * act(gate)

        @staticmethod
        def backward(ctx, g):
            value, gate = ctx.saved_tensors
            return g * act(gate), g * value * dact(gate)

    def glu(value, gate):
        return _GLU.apply(value, gate)

    return glu


def _gelu(x):
    return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))


def _dgelu(x):
    cdf = 0.5 * (1 + torch.erf(x / math.sqrt(2)))
    pdf = torch.exp(-0.5 * x * x) / math.sqrt(2 * math.pi)
    return cdf + x * pdf


geglu = make_glu(_gelu, _dgelu)
reglu = make_glu(torch.relu, lambda x: (x > 0).to(x.dtype))


class LSTMPointwise(Function):
    # gates (B, 4H) in i, f, g, o order ; c_prev (B, H)  ->  h, c  both (B, H)
    @staticmethod
    def forward(ctx, gates, c_prev):
        i, f, g, o = gates.chunk(4, dim=1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c_prev + i * g
        tc = c.tanh()
        ctx.save_for_backward(i, f, g, o, c_prev, tc)
        return o * tc, c

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_h, grad_c):
        i, f, g, o, c_prev, tc = ctx.saved_tensors
        d_o = grad_h * tc * o * (1 - o)
        d_c = grad_h * o * (1 - tc * tc)
        d_i = d_c * g * i * (1 - i)
        d_f = d_c * c_prev * f * (1 - f)
        d_g = d_c * i * (1 - g * g)
        return torch.cat([d_i, d_f, d_g, d_o], dim=1), d_c * f


class GRUPointwise(Function):
    @staticmethod
    def forward(ctx, gi, gh, h):
        ir, iz, inn = gi.chunk(3, -1)
        hr, hz, hn = gh.chunk(3, -1)
        r = torch.sigmoid(ir + hr)
        z = torch.sigmoid(iz + hz)
        n = torch.tanh(inn + r * hn)
        ctx.save_for_backward(r, z, n, hn, h)
        return n + z * (h - n)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        r, z, n, hn, h = ctx.saved_tensors
        dn = g * (1 - z) * (1 - n ** 2)
        dz = g * (h - n) * z * (1 - z)
        dr = dn * hn * r * (1 - r)
        return torch.cat((dr, dz, dn), -1), torch.cat((dr, dz, dn * r), -1), g * z


class CausalDepthwiseConv1d(Function):
    """Causal depthwise convolution (Mamba/Hyena short conv).

    Args:
        x (Tensor): (batch, channels, length)
        weight (Tensor): (channels, kernel); the last tap sees the present sample
        bias (Tensor): (channels,)
        dilation (int): spacing of the taps

    Returns:
        Tensor: (batch, channels, length)
    """

    @staticmethod
    def forward(ctx, x, weight, bias, dilation=1):
        c, k = weight.shape
        ctx.save_for_backward(x, weight)
        ctx.dilation = dilation
        xp = F.pad(x, ((k - 1) * dilation, 0))
        return F.conv1d(xp, weight[:, None, :], bias, dilation=dilation, groups=c)

    @staticmethod
    @once_differentiable
    def backward(ctx, gy):
        x, weight = ctx.saved_tensors
        c, k = weight.shape
        d = ctx.dilation
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gp = F.pad(gy, (0, (k - 1) * d))
            gx = F.conv1d(gp, weight.flip(1)[:, None, :], dilation=d, groups=c)
        if ctx.needs_input_grad[1]:
            win = F.pad(x, (k - 1, 0)).unfold(-1, k, 1)
            gw = torch.einsum("bcl,bclk->ck", gy, win)
        if ctx.needs_input_grad[2]:
            gb = gy.sum((0, 2))
        return gx, gw, gb, None


@torch.library.custom_op("smallvision::avg_pool1d", mutates_args=())
def avg_pool1d(x: Tensor, kernel: int, stride: int) -> Tensor:
    return x.unfold(-1, kernel, stride).mean(-1)


def _avg_pool1d_setup(ctx, inputs, output):
    x, ctx.kernel, ctx.stride = inputs
    ctx.length = x.shape[-1]


def _avg_pool1d_backward(ctx, g):
    gx = (g / ctx.kernel).repeat_interleave(ctx.kernel, dim=-1)
    missing = ctx.length - gx.shape[-1]
    if missing > 0:
        gx = F.pad(gx, (0, missing))
    return gx[..., : ctx.length], None, None


avg_pool1d.register_autograd(_avg_pool1d_backward, setup_context=_avg_pool1d_setup)


@torch.library.custom_op("smallvision::pixel_shuffle", mutates_args=())
def pixel_shuffle(x: Tensor, upscale: int) -> Tensor:
    """Depth to space: (N, C*r*r, H, W) -> (N, C, H*r, W*r)."""
    n, crr, h, w = x.shape
    r = upscale
    c = crr // (r * r)
    return x.reshape(n, c, r, r, h, w).permute(0, 1, 4, 2, 5, 3).reshape(n, c, h * r, w * r).clone()


def _ps_setup(ctx, inputs, output):
    _, ctx.r = inputs


def _ps_backward(ctx, g):
    n, c, hr, wr = g.shape
    r = ctx.r
    g = g.reshape(n, c, hr // r, r, wr // r, r).permute(0, 1, 3, 5, 2, 4)
    return g.reshape(n, c * r * r, hr // r, wr // r), None


pixel_shuffle.register_autograd(_ps_backward, setup_context=_ps_setup)


class ChannelShuffle(Function):
    """ShuffleNet channel shuffle of an NCHW map."""

    @staticmethod
    def forward(ctx, x, groups):
        ctx.groups = groups
        n, c, h, w = x.shape
        return x.reshape(n, groups, c // groups, h, w).transpose(1, 2).reshape(n, c, h, w)

    @staticmethod
    def backward(ctx, grad):
        n, c, h, w = grad.shape
        g = grad.reshape(n, ctx.groups, c // ctx.groups, h, w)
        return g.transpose(1, 2).reshape(n, c, h, w), None


class Linear(nn.Linear):
    def forward(self, x):
        return LinearFunction.apply(x, self.weight, self.bias)


class MLP(nn.Module):
    def __init__(self, dim, hidden):
        super().__init__()
        self.w1 = nn.Parameter(torch.randn(dim, hidden) * dim ** -0.5)
        self.w3 = nn.Parameter(torch.randn(dim, hidden) * dim ** -0.5)
        self.w2 = nn.Parameter(torch.randn(hidden, dim) * hidden ** -0.5)

    def forward(self, x):
        return SwiGLUMLP.apply(x, self.w1, self.w3, self.w2)


class LSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.ih = Linear(input_size, 4 * hidden_size)
        self.hh = Linear(hidden_size, 4 * hidden_size, bias=False)

    def forward(self, x, state):
        h, c = state
        return LSTMPointwise.apply(self.ih(x) + self.hh(h), c)


class GRUCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.ih = Linear(input_size, 3 * hidden_size)
        self.hh = Linear(hidden_size, 3 * hidden_size)

    def forward(self, x, h):
        """x (B, I), h (B, H)"""
        return GRUPointwise.apply(self.ih(x), self.hh(h), h)


class ShuffleUnit(nn.Module):
    def __init__(self, channels, groups=2):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 1, groups=groups)
        self.conv2 = nn.Conv2d(channels, channels, 1, groups=groups)
        self.groups = groups

    def forward(self, x):
        y = ChannelShuffle.apply(self.conv1(x).relu(), self.groups)
        return x + self.conv2(y)
