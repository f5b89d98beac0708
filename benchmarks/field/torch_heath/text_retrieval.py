from __future__ import annotations

import torch
from torch import nn


class BM25Match(torch.autograd.Function):
    """BM25 scores with learned (real valued) term frequencies.

    Document lengths are the row sums of ``tf`` and the average length is their mean over the collection, so
    both follow ``tf`` while the term expander is trained.

    Args:
        query (Tensor): query term weights, ``(Q, V)``.
        tf (Tensor): non-negative term frequencies, ``(D, V)``, no empty document.
        idf (Tensor): ``(V,)``.
        k1 (float): saturation, positive.
        b (float): length normalisation in [0, 1].

    Returns:
        Tensor: scores ``(Q, D)``.
    """

    @staticmethod
    def forward(ctx, query, tf, idf, k1=1.2, b=0.75):
        length = tf.sum(dim=1)
        avg = length.mean()
        offset = k1 * (1 - b + b * length / avg)
        denom = tf + offset[:, None]
        gain = (k1 + 1) * tf / denom
        ctx.k1, ctx.b = k1, b
        ctx.save_for_backward(query, tf, idf, avg, offset, denom, gain)
        return query @ (gain * idf).T

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        query, tf, idf, avg, offset, denom, gain = ctx.saved_tensors
        k1, b = ctx.k1, ctx.b
        d_query = d_tf = d_idf = None
        if ctx.needs_input_grad[0]:
            d_query = grad @ (gain * idf)
        pulled = grad.T @ query
        if ctx.needs_input_grad[1]:
            d_gain = pulled * idf * (k1 + 1) / denom**2
            d_offset = -(d_gain * tf).sum(dim=1)
            d_length = d_offset * k1 * b / avg
            d_tf = d_gain * offset[:, None] + d_length[:, None]
        if ctx.needs_input_grad[2]:
            d_idf = (pulled * gain).sum(dim=0)
        return d_query, d_tf, d_idf, None, None


def _sketch(x, bucket, sign, size):
    out = x.new_zeros(*x.shape[:-1], size)
    return out.index_add(-1, bucket, x * sign.to(x.dtype))


class CompactBilinear(torch.autograd.Function):
    """Tensor sketch of the outer product of two feature vectors.

    Count sketches of ``x`` (..., n) and ``y`` (..., m) are convolved circularly in the Fourier domain.
    ``bucket_*`` hold integers in ``[0, size)`` (collisions are expected) and ``sign_*`` are +1 or -1. Only the
    inputs are kept for the backward pass, spectra are computed again. Works for odd sizes too.
    """

    @staticmethod
    def forward(x, y, bucket_x, sign_x, bucket_y, sign_y, size: int):
        fx = torch.fft.rfft(_sketch(x, bucket_x, sign_x, size), n=size)
        fy = torch.fft.rfft(_sketch(y, bucket_y, sign_y, size), n=size)
        return torch.fft.irfft(fx * fy, n=size)

    @staticmethod
    def setup_context(ctx, inputs, output):
        *tensors, ctx.size = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, grad):
        x, y, bucket_x, sign_x, bucket_y, sign_y = ctx.saved_tensors
        size = ctx.size
        fg = torch.fft.rfft(grad, n=size)
        gx = gy = None
        if ctx.needs_input_grad[0]:
            fy = torch.fft.rfft(_sketch(y, bucket_y, sign_y, size), n=size)
            corr = torch.fft.irfft(fg * fy.conj(), n=size)
            gx = corr.index_select(-1, bucket_x) * sign_x.to(x.dtype)
        if ctx.needs_input_grad[1]:
            fx = torch.fft.rfft(_sketch(x, bucket_x, sign_x, size), n=size)
            corr = torch.fft.irfft(fg * fx.conj(), n=size)
            gy = corr.index_select(-1, bucket_y) * sign_y.to(y.dtype)
        return gx, gy, None, None, None, None, None


class PairEncoder(nn.Module):
    """Joint query/passage feature for the re-ranker."""

    def __init__(self, n: int, m: int, size: int = 512, seed: int = 0):
        super().__init__()
        gen = torch.Generator().manual_seed(seed)
        self.size = size
        for name, dim in (("x", n), ("y", m)):
            self.register_buffer(f"bucket_{name}", torch.randint(size, (dim,), generator=gen))
            self.register_buffer(f"sign_{name}", 2 * torch.randint(2, (dim,), generator=gen) - 1)
        self.head = nn.Linear(size, 1)

    def forward(self, x, y):
        z = CompactBilinear.apply(x, y, self.bucket_x, self.sign_x, self.bucket_y, self.sign_y, self.size)
        return self.head(z).squeeze(-1)
