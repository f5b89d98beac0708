"""Forces and energies of a triangle-mesh garment."""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _dot(a, b):
    return (a * b).sum(-1, keepdim=True)


def _cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


class WindDrag(Function):
    @staticmethod
    def forward(ctx, x, v, wind, faces, drag):
        """x, v [V, 3]; wind [3] or [F, 3]; faces [F, 3] (no zero-area faces). Nodal forces [V, 3]."""
        e1, e2 = x[faces[:, 1]] - x[faces[:, 0]], x[faces[:, 2]] - x[faces[:, 0]]
        area = 0.5 * _cross(e1, e2)
        n = area / area.norm(dim=-1, keepdim=True)
        u = wind - v[faces].mean(1)
        f = drag * _dot(u, area) * n
        ctx.drag, ctx.wind_shape = drag, wind.shape
        ctx.save_for_backward(e1, e2, u, faces)
        out = torch.zeros_like(x)
        return out.index_add_(0, faces.reshape(-1), (f / 3).repeat_interleave(3, 0))

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        e1, e2, u, faces = ctx.saved_tensors
        area = 0.5 * _cross(e1, e2)
        size = area.norm(dim=-1, keepdim=True)
        n = area / size
        g = ctx.drag * grad[faces].mean(1)
        gn = _dot(g, n)
        g_u = gn * area
        g_area = gn * u + _dot(u, n) * (g - gn * n)
        g_e1, g_e2 = 0.5 * _cross(e2, g_area), 0.5 * _cross(g_area, e1)
        g_x = torch.zeros_like(grad)
        g_x.index_add_(0, faces[:, 0], -g_e1 - g_e2)
        g_x.index_add_(0, faces[:, 1], g_e1)
        g_x.index_add_(0, faces[:, 2], g_e2)
        g_v = torch.zeros_like(grad).index_add_(
            0, faces.reshape(-1), (-g_u / 3).repeat_interleave(3, 0)
        )
        return g_x, g_v, g_u.sum_to_size(ctx.wind_shape), None, None


def _hinge_normals(x, hinges):
    p, q, a, b = (x[:, hinges[:, i]] for i in range(4))
    return p, q, a, b, _cross(p - a, p - b), _cross(q - b, q - a)


def _hinge_angle(n1, n2, edge):
    s = (_cross(n1, n2) * edge).sum(-1) / edge.norm(dim=-1)
    return torch.atan2(s, (n1 * n2).sum(-1))


class HingeBend(Function):
    """Bending energy ``sum_h k_h * wrap(theta_h - rest_h)^2 / 2`` of each garment in the batch.

    Args:
        x: vertices ``[B, V, 3]``.
        stiffness: ``[H]``.
        rest: rest angles ``[H]``, in radians.
        hinges: int64 ``[H, 4]``: the two opposite corners, then the two ends of the shared edge. Hinges share vertices.

    Returns:
        ``[B]``. The difference of angles is wrapped into (-pi, pi]; the fold at exactly pi away from rest is a kink.
    """

    @staticmethod
    def forward(x, stiffness, rest, hinges):
        _, _, a, b, n1, n2 = _hinge_normals(x, hinges)
        d = _hinge_angle(n1, n2, b - a) - rest
        d = torch.atan2(torch.sin(d), torch.cos(d))
        return 0.5 * (stiffness * d * d).sum(-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, stiffness, rest, hinges = ctx.saved_tensors
        p, q, a, b, n1, n2 = _hinge_normals(x, hinges)
        e = b - a
        d = _hinge_angle(n1, n2, e) - rest
        d = torch.atan2(torch.sin(d), torch.cos(d))
        pull = grad[:, None] * stiffness * d
        length = e.norm(dim=-1, keepdim=True)
        m1, m2 = n1 / _dot(n1, n1), n2 / _dot(n2, n2)
        e_hat = e / length
        corner = (
            -length * m1,
            -length * m2,
            -_dot(p - b, e_hat) * m1 - _dot(q - b, e_hat) * m2,
            _dot(p - a, e_hat) * m1 + _dot(q - a, e_hat) * m2,
        )
        g_x = torch.zeros_like(x)
        for i, c in enumerate(corner):
            g_x.index_add_(1, hinges[:, i], pull.unsqueeze(-1) * c)
        g_k = (0.5 * grad[:, None] * d * d).sum(0)
        return g_x, g_k, -pull.sum(0), None


class SeamPenalty(Function):
    """Energy of the stitches [B]: k_s * max(|x_a - x_b| - gap, 0)^2 / 2, summed over the seams (or their mean).

    x [B, V, 3], stiffness [S], pairs [S, 2].
    """

    @staticmethod
    def forward(ctx, x, stiffness, pairs, gap=0.0, mean=False):
        a, b = pairs.unbind(1)
        d = x[:, a] - x[:, b]
        dist = d.norm(dim=-1).clamp(min=1e-12)
        over = (dist - gap).clamp(min=0)
        ctx.save_for_backward(x, stiffness, pairs, d, dist, over)
        ctx.mean = mean
        energy = 0.5 * stiffness * over**2
        return energy.mean(-1) if mean else energy.sum(-1)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, stiffness, pairs, d, dist, over = ctx.saved_tensors
        g = grad.unsqueeze(-1)
        if ctx.mean:
            g = g / pairs.shape[0]
        a, b = pairs.unbind(1)
        pull = (g * stiffness * over / dist).unsqueeze(-1) * d
        g_x = torch.zeros_like(x)
        g_x[:, a] += pull
        g_x[:, b] -= pull
        g_k = (0.5 * g * over**2).sum(0)
        return g_x, g_k, None, None, None


class Garment(torch.nn.Module):
    def __init__(self, faces, hinges, seams, rest=None, gap=2e-3, drag=0.6):
        super().__init__()
        self.register_buffer("faces", faces)
        self.register_buffer("hinges", hinges)
        self.register_buffer("seams", seams)
        self.register_buffer("rest", torch.zeros(len(hinges)) if rest is None else rest)
        self.bend = torch.nn.Parameter(torch.full((len(hinges),), -6.0))
        self.stitch = torch.nn.Parameter(torch.full((len(seams),), 2.0))
        self.gap, self.drag = gap, drag

    def energy(self, x):
        bend = HingeBend.apply(x, self.bend.exp(), self.rest, self.hinges)
        return bend + SeamPenalty.apply(x, self.stitch.exp(), self.seams, self.gap, False)

    def wind_force(self, x, v, wind):
        return WindDrag.apply(x, v, wind, self.faces, self.drag)
