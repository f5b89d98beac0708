"""Linear algebra and geometry with analytic adjoints."""

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable


def _capacitance_solve(diag, left, right, rhs):
    scaled_rhs = rhs / diag.unsqueeze(-1)
    scaled_left = left / diag.unsqueeze(-1)
    eye = torch.eye(left.shape[-1], dtype=left.dtype, device=left.device)
    small = eye + right.mT @ scaled_left
    return scaled_rhs - scaled_left @ torch.linalg.solve(small, right.mT @ scaled_rhs)


class DiagPlusLowRankSolve(Function):
    """Solve ``(diag(d) + U V^T) x = b`` by the Woodbury identity.

    Parameters
    ----------
    diag : Tensor, shape (..., n)
    u : Tensor, shape (..., n, r)
    rhs : Tensor, shape (..., n, m)
    v : Tensor, shape (..., n, r), optional
        ``u`` when left out, which makes the system symmetric.

    Returns
    -------
    Tensor, shape (..., n, m)
    """

    @staticmethod
    def forward(ctx, diag, u, rhs, v=None):
        ctx.tied = v is None
        x = _capacitance_solve(diag, u, u if v is None else v, rhs)
        ctx.save_for_backward(diag, u, u if v is None else v, x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_x):
        diag, u, v, x = ctx.saved_tensors
        lam = _capacitance_solve(diag, u, v, grad_x)
        grad_diag = -(lam * x).sum(-1)
        grad_u = -lam @ (x.mT @ v)
        grad_v = -x @ (lam.mT @ u)
        if ctx.tied:
            return grad_diag, grad_u + grad_v, lam, None
        return grad_diag, grad_u, lam, grad_v


class PairwiseMinkowski(Function):
    """Distances of order ``p`` between two point sets.

    Args:
        x (Tensor): ``(..., n, d)``.
        y (Tensor): ``(..., m, d)``.
        p (float): order, at least 1. Default: 2.

    Returns:
        Tensor: ``(..., n, m)``. The gradient at coincident points is zero.
    """

    @staticmethod
    def forward(x, y, p=2.0):
        gap = (x.unsqueeze(-2) - y.unsqueeze(-3)).abs()
        if p == 1:
            return gap.sum(-1)
        return gap.pow(p).sum(-1).pow(1.0 / p)

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, y, p = inputs
        ctx.p = p
        ctx.save_for_backward(x, y, output)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        x, y, dist = ctx.saved_tensors
        gap = x.unsqueeze(-2) - y.unsqueeze(-3)
        if ctx.p == 1:
            local = torch.sign(gap)
        else:
            safe = torch.where(dist > 0, dist, torch.ones_like(dist)).unsqueeze(-1)
            local = torch.sign(gap) * gap.abs().pow(ctx.p - 1) / safe
        local = local * grad.unsqueeze(-1)
        return local.sum(-2), -local.sum(-3), None


class QuaternionToMatrix(Function):
    """Rotation matrix of a quaternion ``(w, x, y, z)`` of any nonzero length."""

    @staticmethod
    def _quadratic(w, x, y, z):
        rows = [
            -(y * y + z * z), x * y - w * z, x * z + w * y,
            x * y + w * z, -(x * x + z * z), y * z - w * x,
            x * z - w * y, y * z + w * x, -(x * x + y * y),
        ]
        return torch.stack(rows, dim=-1).unflatten(-1, (3, 3))

    @staticmethod
    def forward(ctx, quaternion: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(quaternion)
        m = QuaternionToMatrix._quadratic(*quaternion.unbind(-1))
        s = 2.0 / quaternion.square().sum(-1)
        eye = torch.eye(3, dtype=quaternion.dtype, device=quaternion.device)
        return eye + s[..., None, None] * m

    @staticmethod
    def backward(ctx, grad: torch.Tensor):
        (q,) = ctx.saved_tensors
        w, x, y, z = q.unbind(-1)
        g = [[grad[..., i, j] for j in range(3)] for i in range(3)]
        sq = q.square().sum(-1)
        dw = z * (g[1][0] - g[0][1]) + y * (g[0][2] - g[2][0]) + x * (g[2][1] - g[1][2])
        dx = (y * (g[0][1] + g[1][0]) + z * (g[0][2] + g[2][0])
              + w * (g[2][1] - g[1][2]) - 2 * x * (g[1][1] + g[2][2]))
        dy = (x * (g[0][1] + g[1][0]) + z * (g[1][2] + g[2][1])
              + w * (g[0][2] - g[2][0]) - 2 * y * (g[0][0] + g[2][2]))
        dz = (x * (g[0][2] + g[2][0]) + y * (g[1][2] + g[2][1])
              + w * (g[1][0] - g[0][1]) - 2 * z * (g[0][0] + g[1][1]))
        direct = torch.stack((dw, dx, dy, dz), dim=-1) * (2.0 / sq).unsqueeze(-1)
        inner = (grad * QuaternionToMatrix._quadratic(w, x, y, z)).sum((-2, -1))
        return direct - (4.0 * inner / sq.square()).unsqueeze(-1) * q


class FaceAreas(Function):

    @staticmethod
    def forward(ctx, vertices, faces):
        a, b, c = (vertices[..., faces[:, i], :] for i in range(3))
        normal = torch.linalg.cross(b - a, c - a)
        twice = normal.norm(dim=-1)
        ctx.save_for_backward(vertices, faces, normal, twice)
        return 0.5 * twice

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_area):
        vertices, faces, normal, twice = ctx.saved_tensors
        a, b, c = (vertices[..., faces[:, i], :] for i in range(3))
        unit = normal / twice.clamp(min=torch.finfo(twice.dtype).tiny).unsqueeze(-1)
        pull = 0.5 * grad_area.unsqueeze(-1) * unit
        corner_b = torch.linalg.cross(c - a, pull)
        corner_c = torch.linalg.cross(pull, b - a)
        grad = torch.zeros_like(vertices)
        for i, part in enumerate((-(corner_b + corner_c), corner_b, corner_c)):
            grad[..., faces[:, i], :] += part
        return grad, None


def surface_area(vertices, faces):
    """Total area of a triangle mesh."""
    return FaceAreas.apply(vertices, faces).sum(-1)
