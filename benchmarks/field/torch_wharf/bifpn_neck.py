import torch
import torch.nn as nn
import torch.nn.functional as F

EPS = 1e-4


def _lift(v, ndim, dim):
    shape = [1] * ndim
    shape[dim] = v.numel()
    return v.reshape(shape)


class FastFusion(torch.autograd.Function):
    # xs (N, B, C, H, W), w (N,) or (N, C)
    @staticmethod
    def forward(ctx, xs, w):
        per_channel = w.dim() == 2
        on = w.relu()
        den = on.sum(0) + EPS
        a = on / den
        view = a[:, None, :, None, None] if per_channel else a[:, None, None, None, None]
        out = (view * xs).sum(0)
        ctx.save_for_backward(xs, w, den, view, out)
        return out

    @staticmethod
    def backward(ctx, g):
        xs, w, den, view, out = ctx.saved_tensors
        gx = gw = None
        if ctx.needs_input_grad[0]:
            gx = view * g
        if ctx.needs_input_grad[1]:
            dims = (1, 3, 4) if w.dim() == 2 else (1, 2, 3, 4)
            gw = ((xs - out) * g).sum(dims) / den * (w > 0)
        return gx, gw


class BiasNorm(torch.autograd.Function):
    # y = x * exp(log_scale) / rms(x - bias) along dim
    @staticmethod
    def forward(ctx, x, bias, log_scale, dim):
        b = _lift(bias, x.dim(), dim)
        inv = (x - b).square().mean(dim, keepdim=True).rsqrt()
        s = log_scale.exp()
        y = x * inv * s
        ctx.save_for_backward(x, bias, inv, s, y)
        ctx.dim = dim
        return y

    @staticmethod
    def backward(ctx, g):
        x, bias, inv, s, y = ctx.saved_tensors
        dim = ctx.dim % x.dim()
        d = x - _lift(bias, x.dim(), dim)
        proj = (g * y).mean(dim, keepdim=True) * inv * inv
        gx = g * inv * s - x * proj
        rest = [i for i in range(x.dim()) if i != dim]
        gb = (d * proj).sum(rest)
        gs = (g * y).sum()
        return gx, gb, gs, None


class CondKernelMix(torch.autograd.Function):
    # x (B, C, L), route (B, E), bank (E, C, K); causal, depthwise
    @staticmethod
    def forward(ctx, x, route, bank, dilation):
        K = bank.shape[-1]
        L = x.shape[-1]
        kern = torch.einsum("be,eck->bck", route, bank)
        xp = F.pad(x, ((K - 1) * dilation, 0))
        y = torch.zeros_like(x)
        for j in range(K):
            y = y + kern[:, :, j : j + 1] * xp[:, :, j * dilation : j * dilation + L]
        ctx.save_for_backward(xp, route, bank, kern)
        ctx.dilation = dilation
        return y

    @staticmethod
    def backward(ctx, g):
        xp, route, bank, kern = ctx.saved_tensors
        d, K, L = ctx.dilation, bank.shape[-1], g.shape[-1]
        gxp = torch.zeros_like(xp)
        gk = torch.empty_like(kern)
        for j in range(K):
            window = slice(j * d, j * d + L)
            gxp[:, :, window] += kern[:, :, j : j + 1] * g
            gk[:, :, j] = (g * xp[:, :, window]).sum(-1)
        groute = torch.einsum("bck,eck->be", gk, bank)
        gbank = torch.einsum("bck,be->eck", gk, route)
        return gxp[:, :, (K - 1) * d :], groute, gbank, None


class TiedSparseCode(torch.autograd.Function):
    # x (T, D), atoms (M, D), bias (M,), centre (D,): keep the k largest, rectify, decode with the same atoms
    @staticmethod
    def forward(ctx, x, atoms, bias, centre, k):
        h = x - centre
        pre = h @ atoms.t() + bias
        val, idx = pre.topk(k, dim=-1)
        code = torch.zeros_like(pre).scatter_(-1, idx, val.relu())
        ctx.save_for_backward(h, atoms, code, idx)
        return code @ atoms + centre

    @staticmethod
    def backward(ctx, g):
        h, atoms, code, idx = ctx.saved_tensors
        gcode = g @ atoms.t()
        gpre = torch.zeros_like(gcode).scatter_(-1, idx, gcode.gather(-1, idx))
        gh = gpre @ atoms
        gatoms = gpre.t() @ h + code.t() @ g
        gcentre = (g - gh).sum(0)
        return gh, gatoms, gpre.sum(0), gcentre, None


class FuseNode(nn.Module):
    def __init__(self, n_in, channels, per_channel=False):
        super().__init__()
        shape = (n_in, channels) if per_channel else (n_in,)
        self.w = nn.Parameter(torch.ones(shape))
        self.bias = nn.Parameter(torch.zeros(channels))
        self.log_scale = nn.Parameter(torch.tensor(0.0))
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)

    def forward(self, maps):
        size = maps[0].shape[-2:]
        xs = torch.stack([m if m.shape[-2:] == size else F.interpolate(m, size=size) for m in maps])
        y = FastFusion.apply(xs, self.w)
        return self.conv(BiasNorm.apply(y, self.bias, self.log_scale, 1))


class RowMixer(nn.Module):
    def __init__(self, channels, experts=4, kernel=3, dilation=2):
        super().__init__()
        self.bank = nn.Parameter(torch.randn(experts, channels, kernel) / kernel)
        self.router = nn.Linear(channels, experts)
        self.dilation = dilation

    def forward(self, rows):
        route = torch.sigmoid(self.router(rows.mean(-1)))
        return CondKernelMix.apply(rows, route, self.bank, self.dilation)


class NeckProbe(nn.Module):
    def __init__(self, channels=16, atoms=64, k=8):
        super().__init__()
        self.atoms = nn.Parameter(F.normalize(torch.randn(atoms, channels), dim=-1))
        self.bias = nn.Parameter(torch.zeros(atoms))
        self.centre = nn.Parameter(torch.zeros(channels))
        self.k = k

    def forward(self, fmap):
        tokens = fmap.flatten(2).transpose(1, 2).reshape(-1, fmap.shape[1])
        rec = TiedSparseCode.apply(tokens, self.atoms, self.bias, self.centre, self.k)
        return (rec - tokens).square().mean()


def make_pyramid(batch=2, channels=16):
    return [torch.randn(batch, channels, s, s) for s in (16, 8)]
