"""Reference (eager) kernels for the residual-stream experiments."""
from __future__ import annotations

from typing import Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _reduce_to(grad, shape):
    if grad.shape == shape:
        return grad
    extra = grad.dim() - len(shape)
    dims = list(range(extra))
    dims += [i + extra for i, n in enumerate(shape) if n == 1 and grad.shape[i + extra] != 1]
    if dims:
        grad = grad.sum(dims, keepdim=True)
    return grad.reshape(shape)


class HyperConnectionFunction(Function):

    @staticmethod
    def forward(ctx, x, f_out, h_post, h_res):
        # x: [..., S, C]  f_out: [..., C]  h_post: [..., S] or [S]  h_res: [..., S, S] or [S, S]
        ctx.save_for_backward(x, f_out, h_post, h_res)
        return h_res @ x + h_post.unsqueeze(-1) * f_out.unsqueeze(-2)

    @staticmethod
    @once_differentiable
    def backward(ctx, dout):
        x, f_out, h_post, h_res = ctx.saved_tensors
        dx = df = dpost = dres = None
        if ctx.needs_input_grad[0]:
            dx = _reduce_to(h_res.transpose(-1, -2) @ dout, x.shape)
        if ctx.needs_input_grad[1]:
            df = _reduce_to((dout * h_post.unsqueeze(-1)).sum(-2), f_out.shape)
        if ctx.needs_input_grad[2]:
            dpost = _reduce_to((dout * f_out.unsqueeze(-2)).sum(-1), h_post.shape)
        if ctx.needs_input_grad[3]:
            dres = _reduce_to(dout @ x.transpose(-1, -2), h_res.shape)
        return dx, df, dpost, dres


class DepthAttentionFunction(Function):
    """Softmax attention over the outputs of earlier blocks.

    Args:
        v_stacked: outputs of the blocks so far, ``[N, ..., D]``.
        w_query: learned pseudo-query, ``[D]``.
        w_norm: weight of the RMS norm that makes the keys, ``[D]``.
        eps: added to the mean square.

    Returns:
        The mixture ``sum_n p_n * v_n``, of shape ``[..., D]``.
    """

    @staticmethod
    def forward(ctx, v_stacked, w_query, w_norm, eps=1e-6):
        rstd = torch.rsqrt(v_stacked.square().mean(-1, keepdim=True) + eps)
        xhat = v_stacked * rstd
        logits = (xhat * w_norm) @ w_query
        p = torch.softmax(logits, dim=0)
        ctx.save_for_backward(v_stacked, w_query, w_norm, rstd, p)
        return (p.unsqueeze(-1) * v_stacked).sum(0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_out):
        v, w_query, w_norm, rstd, p = ctx.saved_tensors
        d = v.shape[-1]
        g = grad_out.unsqueeze(0)
        xhat = v * rstd
        dp = (g * v).sum(-1)
        dlogits = p * (dp - (p * dp).sum(0, keepdim=True))

        flat = dlogits.reshape(-1)
        pooled = flat @ xhat.reshape(-1, d)
        dw_query = pooled * w_norm
        dw_norm = pooled * w_query

        ds = dlogits.unsqueeze(-1)
        dxhat = ds * (w_query * w_norm)
        inner = ds * (xhat @ w_query).unsqueeze(-1) / d
        dv = p.unsqueeze(-1) * g + rstd * (dxhat - xhat * inner)
        return dv, dw_query, dw_norm, None


def _window_table(length, kernel_size, dilation, device):
    pos = torch.arange(length, device=device)
    lane = pos % dilation
    lane_len = torch.div(length - lane + dilation - 1, dilation, rounding_mode="floor")
    start = torch.div(pos, dilation, rounding_mode="floor") - kernel_size // 2
    start = torch.minimum(start.clamp(min=0), lane_len - kernel_size)
    steps = torch.arange(kernel_size, device=device)
    return (start[:, None] + steps[None, :]) * dilation + lane[:, None]


class NeighborhoodAttentionFunction(Function):
    """One-dimensional neighbourhood attention.

    Parameters
    ----------
    query, key : Tensor, shape (B, H, T, D)
    value : Tensor, shape (B, H, T, Dv)
    kernel_size : int
        Odd width of the window. Windows are shifted inwards at both ends, so every
        query sees exactly ``kernel_size`` keys; needs ``T >= kernel_size * dilation``.
    dilation : int
        Distance between the keys of one window.
    scale : float, optional
        Factor of the logits, ``D ** -0.5`` by default.
    """

    @staticmethod
    def forward(ctx, query, key, value, kernel_size: int = 3, dilation: int = 1, scale: Optional[float] = None):
        length = query.shape[2]
        if kernel_size % 2 == 0 or length < kernel_size * dilation:
            raise ValueError("kernel_size must be odd and kernel_size * dilation at most T")
        if scale is None:
            scale = query.shape[-1] ** -0.5
        table = _window_table(length, kernel_size, dilation, query.device)
        logits = torch.einsum("bhtd,bhtkd->bhtk", query, key[:, :, table]) * scale
        attn = torch.softmax(logits, dim=-1)
        ctx.save_for_backward(query, key, value, attn, table)
        ctx.scale = scale
        return torch.einsum("bhtk,bhtkd->bhtd", attn, value[:, :, table])

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        query, key, value, attn, table = ctx.saved_tensors
        idx = table.reshape(-1)
        dattn = torch.einsum("bhtd,bhtkd->bhtk", grad_output, value[:, :, table])
        dlogits = attn * (dattn - (attn * dattn).sum(-1, keepdim=True)) * ctx.scale

        dq = torch.einsum("bhtk,bhtkd->bhtd", dlogits, key[:, :, table])
        dk_win = torch.einsum("bhtk,bhtd->bhtkd", dlogits, query)
        dv_win = torch.einsum("bhtk,bhtd->bhtkd", attn, grad_output)
        dk = torch.zeros_like(key).index_add_(2, idx, dk_win.flatten(2, 3))
        dv = torch.zeros_like(value).index_add_(2, idx, dv_win.flatten(2, 3))
        return dq, dk, dv, None, None, None


class GatedLayerNormFunction(Function):

    @staticmethod
    def forward(ctx, x, weight, bias=None, z=None, eps=1e-5, group_size=None, norm_before_gate=True,
                is_rms_norm=False):
        d = x.shape[-1]
        group_size = d if group_size is None else group_size
        if d % group_size:
            raise ValueError("group_size must divide the last dimension")
        u = x if (z is None or norm_before_gate) else x * F.silu(z)
        ug = u.unflatten(-1, (-1, group_size))
        if not is_rms_norm:
            ug = ug - ug.mean(-1, keepdim=True)
        rstd = torch.rsqrt(ug.square().mean(-1, keepdim=True) + eps)
        xhat = (ug * rstd).flatten(-2)
        y = xhat * weight
        if bias is not None:
            y = y + bias
        ctx.save_for_backward(x, weight, bias, z, xhat, rstd)
        ctx.group_size, ctx.norm_before_gate, ctx.is_rms_norm = group_size, norm_before_gate, is_rms_norm
        if z is not None and norm_before_gate:
            y = y * F.silu(z)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx, dy):
        x, weight, bias, z, xhat, rstd = ctx.saved_tensors
        dz = None
        if z is not None:
            sig = torch.sigmoid(z)
            gate, dgate = z * sig, sig * (1 + z * (1 - sig))
        if z is not None and ctx.norm_before_gate:
            pre = xhat * weight
            if bias is not None:
                pre = pre + bias
            dz = dy * pre * dgate
            dy = dy * gate
        lead = tuple(range(dy.dim() - 1))
        dw = (dy * xhat).sum(lead)
        db = dy.sum(lead) if bias is not None else None

        wdy = (dy * weight).unflatten(-1, (-1, ctx.group_size))
        xg = xhat.unflatten(-1, (-1, ctx.group_size))
        c1 = (wdy * xg).mean(-1, keepdim=True)
        du = ((wdy - xg * c1) * rstd).flatten(-2)
        if z is not None and not ctx.norm_before_gate:
            dz = du * x * dgate
            du = du * gate
        return du, dw, db, dz, None, None, None, None


class GatedLayerNorm(nn.Module):
    def __init__(self, hidden_size, eps=1e-5, group_size=None, norm_before_gate=True, is_rms_norm=False):
        super().__init__()
        self.eps, self.group_size = eps, group_size
        self.norm_before_gate, self.is_rms_norm = norm_before_gate, is_rms_norm
        self.weight = nn.Parameter(torch.ones(hidden_size))
        self.bias = None if is_rms_norm else nn.Parameter(torch.zeros(hidden_size))

    def forward(self, x, z=None):
        return GatedLayerNormFunction.apply(x, self.weight, self.bias, z, self.eps, self.group_size,
                                            self.norm_before_gate, self.is_rms_norm)
