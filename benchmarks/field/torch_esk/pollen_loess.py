"""Local linear smoothing of pollen percentages along a core, with a learnable span."""

import torch
from torch import nn

RIDGE = 1e-6


class LoessFit(torch.autograd.Function):
    """Tricube local linear fit of y (B, N) at query depths (Q,); span () or (Q,), counted (B, N) bool; x, query fixed."""

    @staticmethod
    def forward(ctx, y, span, x, query, counted):
        d = x - query[:, None]
        u = d.abs() / span.reshape(-1, 1)
        near = u < 1
        core = torch.where(near, 1.0 - u**3, torch.zeros_like(u))
        w = core[None] ** 3 * counted[:, None, :]
        s0 = w.sum(-1) + RIDGE
        s1 = (w * d).sum(-1)
        s2 = (w * d * d).sum(-1) + RIDGE
        det = s0 * s2 - s1 * s1
        # first row of the inverse normal matrix, applied to every sample
        lever = (s2[..., None] - s1[..., None] * d) / det[..., None]
        clean = torch.where(counted, y, torch.zeros_like(y))
        wy = w * clean[:, None, :]
        m0, m1 = wy.sum(-1), (wy * d).sum(-1)
        level = (s2 * m0 - s1 * m1) / det
        slope = (s0 * m1 - s1 * m0) / det
        ctx.save_for_backward(clean, span, d, u, core, w, lever, level, slope, counted)
        return level

    @staticmethod
    def backward(ctx, g):
        clean, span, d, u, core, w, lever, level, slope, counted = ctx.saved_tensors
        g_y = torch.einsum("bq,bqn->bn", g, w * lever)
        g_span = None
        if ctx.needs_input_grad[1]:
            misfit = clean[:, None, :] - level[..., None] - slope[..., None] * d
            g_w = g[..., None] * lever * misfit * counted[:, None, :]
            per_point = g_w.sum(0) * 9.0 * core**2 * u**3
            g_span = per_point.sum(-1) / span
            if span.dim() == 0:
                g_span = g_span.sum()
        return g_y, g_span, None, None, None


class CoreSmoother(nn.Module):
    def __init__(self, depths, query, span=8.0, per_query=False):
        super().__init__()
        self.register_buffer("depths", depths)
        self.register_buffer("query", query)
        init = torch.full((query.numel(),) if per_query else (), float(span))
        self.log_span = nn.Parameter(init.log())

    def forward(self, percent):
        counted = ~torch.isnan(percent)
        return LoessFit.apply(percent, self.log_span.exp(), self.depths, self.query, counted)
