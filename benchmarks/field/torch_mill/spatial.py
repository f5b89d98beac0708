import math

import torch
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _sym(a):
    return 0.5 * (a + a.transpose(-1, -2))


class SpdLogmFunction(Function):
    """Matrix logarithm of symmetric positive definite matrices ``(..., n, n)``.

    The symmetric part of the input is used. The derivative is taken in the
    eigenbasis with the divided differences of ``log``, also at repeated eigenvalues.
    """

    @staticmethod
    def forward(ctx, a):
        lam, vec = torch.linalg.eigh(_sym(a))
        ctx.save_for_backward(lam, vec)
        return (vec * lam.log().unsqueeze(-2)) @ vec.transpose(-1, -2)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        lam, vec = ctx.saved_tensors
        row, col = lam.unsqueeze(-1), lam.unsqueeze(-2)
        lo, hi = torch.minimum(row, col), torch.maximum(row, col)
        rel = (hi - lo) / lo
        safe = torch.where(rel == 0, torch.ones_like(rel), rel)
        ratio = torch.where(rel == 0, torch.ones_like(rel), torch.log1p(safe) / safe)
        vt = vec.transpose(-1, -2)
        return vec @ ((vt @ _sym(grad) @ vec) * ratio / lo) @ vt


def _dot(a, b):
    return (a * b).sum(-1, keepdim=True)


class RotationFromSixDFunction(Function):
    """Rotation matrices from the continuous 6D representation.

    Args:
        params: ``(..., 6)``, two three-vectors that are not parallel.

    Returns:
        ``(..., 3, 3)`` whose rows are the orthonormalised vectors and their cross product.
    """

    @staticmethod
    def forward(ctx, params: torch.Tensor) -> torch.Tensor:
        a1, a2 = params[..., :3], params[..., 3:]
        n1 = a1.norm(dim=-1, keepdim=True)
        b1 = a1 / n1
        u = a2 - _dot(b1, a2) * b1
        nu = u.norm(dim=-1, keepdim=True)
        b2 = u / nu
        ctx.save_for_backward(a2, n1, b1, nu, b2)
        return torch.stack((b1, b2, torch.linalg.cross(b1, b2, dim=-1)), dim=-2)

    @staticmethod
    def backward(ctx, grad_r: torch.Tensor):
        a2, n1, b1, nu, b2 = ctx.saved_tensors
        g1, g2, g3 = grad_r.unbind(-2)
        g1 = g1 + torch.linalg.cross(b2, g3, dim=-1)
        g2 = g2 + torch.linalg.cross(g3, b1, dim=-1)
        gu = (g2 - _dot(b2, g2) * b2) / nu
        along = _dot(b1, gu)
        g_a2 = gu - along * b1
        g1 = g1 - along * a2
        g_a1 = (g1 - _dot(b1, g1) * b1) / n1
        return torch.cat((g_a1, g_a2), dim=-1)


class MaternKernelFunction(Function):
    """Matern covariance with smoothness 3/2 or 5/2.

    Parameters
    ----------
    x1 : Tensor, shape (n, d)
    x2 : Tensor, shape (m, d)
    lengthscale : Tensor, shape (1,) or (d,)
        One shared length scale, or one for each feature.
    nu : {1.5, 2.5}

    Returns
    -------
    Tensor, shape (n, m)
    """

    @staticmethod
    def forward(ctx, x1, x2, lengthscale, nu=1.5):
        diff = (x1.unsqueeze(-2) - x2.unsqueeze(-3)) / lengthscale
        r = diff.pow(2).sum(-1).sqrt()
        s = math.sqrt(2 * nu) * r
        decay = torch.exp(-s)
        if nu == 1.5:
            k = (1 + s) * decay
            pull = 3.0 * decay
        elif nu == 2.5:
            k = (1 + s + s * s / 3) * decay
            pull = (5.0 / 3.0) * (1 + s) * decay
        else:
            raise ValueError("nu must be 1.5 or 2.5")
        ctx.save_for_backward(diff, r, pull, lengthscale)
        return k

    @staticmethod
    def backward(ctx, grad):
        diff, r, pull, lengthscale = ctx.saved_tensors
        coeff = grad * pull
        g1 = g2 = gl = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[1]:
            step = coeff.unsqueeze(-1) * diff / lengthscale
            g1, g2 = -step.sum(-2), step.sum(-3)
        if ctx.needs_input_grad[2]:
            gl = (coeff * r * r).sum() / lengthscale
        return g1, g2, gl, None


class TransposedConv1dFunction(Function):
    @staticmethod
    def forward(ctx, x, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
        ctx.save_for_backward(x, weight)
        ctx.conf = (stride, padding, groups, dilation)
        ctx.with_bias = bias is not None
        return F.conv_transpose1d(x, weight, bias, stride, padding, output_padding, groups, dilation)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        stride, padding, groups, dilation = ctx.conf
        batch, c_in, length = x.shape
        per_group, taps = weight.shape[1:]
        at = torch.arange(length, device=x.device).unsqueeze(-1) * stride
        at = at + torch.arange(taps, device=x.device) * dilation
        cols = F.pad(grad, (padding, padding))[..., at].view(batch, groups, per_group, length, taps)
        xg = x.view(batch, groups, c_in // groups, length)
        wg = weight.view(groups, c_in // groups, per_group, taps)
        gx = gw = gb = None
        if ctx.needs_input_grad[0]:
            gx = torch.einsum("bgolk,giok->bgil", cols, wg).reshape(x.shape)
        if ctx.needs_input_grad[1]:
            gw = torch.einsum("bgolk,bgil->giok", cols, xg).reshape(weight.shape)
        if ctx.with_bias and ctx.needs_input_grad[2]:
            gb = grad.sum((0, 2))
        return gx, gw, gb, None, None, None, None, None


class UpsampleConv1d(torch.nn.ConvTranspose1d):
    def forward(self, x):
        return TransposedConv1dFunction.apply(
            x, self.weight, self.bias, self.stride[0], self.padding[0],
            self.output_padding[0], self.groups, self.dilation[0],
        )
