"""Contact, resolved-rate control and skinning ops for the hand simulator."""
from typing import Tuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class FrictionConeProjection(Function):
    """Euclidean projection of contact forces on the Coulomb cone ``|f_t| <= mu * f_n``.

    Args:
        force: (..., 3), normal component first.
        mu: friction coefficients > 0, broadcastable to ``force.shape[:-1]``.

    Returns:
        The projected force and an int8 code per contact: 0 stick (already inside), 1 slip (projected on the
        mantle), 2 open (projected on the apex). The code carries no gradient.
    """

    @staticmethod
    def _parts(force, mu):
        normal, tang = force[..., 0], force[..., 1:]
        size = torch.linalg.vector_norm(tang, dim=-1)
        stick = size <= mu * normal
        opened = ~stick & (mu * size <= -normal)
        return normal, tang, size, stick, opened

    @staticmethod
    def forward(force: Tensor, mu: Tensor) -> Tuple[Tensor, Tensor]:
        normal, tang, size, stick, opened = FrictionConeProjection._parts(force, mu)
        level = (normal + mu * size) / (1 + mu * mu)
        unit = tang / torch.where(size > 0, size, torch.ones_like(size))[..., None]
        slid = torch.cat([level[..., None], (mu * level)[..., None] * unit], dim=-1)
        out = torch.where(stick[..., None], force, slid)
        out = torch.where(opened[..., None], torch.zeros_like(force), out)
        code = (~stick).to(torch.int8) + opened.to(torch.int8)
        return out, code

    @staticmethod
    def setup_context(ctx, inputs, output):
        force, mu = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(force, mu)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        force, mu = ctx.saved_tensors
        normal, tang, size, stick, opened = FrictionConeProjection._parts(force, mu)
        slip = ~(stick | opened)
        size = torch.where(slip, size, torch.ones_like(size))
        unit = tang / size[..., None]
        denom = 1 + mu * mu
        level = (normal + mu * size) / denom
        along = (grad[..., 1:] * unit).sum(-1)
        a = (grad[..., 0] + mu * along) / denom
        across = grad[..., 1:] - along[..., None] * unit
        g_tang = (a * mu)[..., None] * unit + (mu * level / size)[..., None] * across
        g_force = torch.cat([a[..., None], g_tang], dim=-1)
        g_force = torch.where(stick[..., None], grad, g_force)
        g_force = torch.where(opened[..., None], torch.zeros_like(grad), g_force)
        g_mu = None
        if ctx.needs_input_grad[1]:
            g_mu = a * (size - 2 * mu * level) + level * along
            g_mu = torch.where(slip, g_mu, torch.zeros_like(g_mu)).sum_to_size(mu.shape)
        return g_force, g_mu


class DampedPseudoInverse(Function):
    """Damped least-squares inverse kinematics step.

    ``dq = J^T (J J^T + damping^2 I)^{-1} v`` with jac (..., m, n), twist (..., m) and damping a tensor that
    broadcasts to the batch shape. Also returns the 2-norm condition number of the damped matrix for logging;
    it is marked non-differentiable. Without damping J has to have full row rank.
    """

    @staticmethod
    def forward(ctx, jac, twist, damping):
        eye = torch.eye(jac.shape[-2], dtype=jac.dtype, device=jac.device)
        gram = jac @ jac.mT + (damping * damping)[..., None, None] * eye
        chol = torch.linalg.cholesky(gram)
        x = torch.cholesky_solve(twist[..., None], chol)
        step = (jac.mT @ x)[..., 0]
        sv = torch.linalg.svdvals(chol)
        cond = (sv[..., 0] / sv[..., -1]) ** 2
        ctx.mark_non_differentiable(cond)
        ctx.save_for_backward(jac, damping, chol, x, step)
        return step, cond

    @staticmethod
    @once_differentiable
    def backward(ctx, grad, _):
        jac, damping, chol, x, step = ctx.saved_tensors
        u = torch.cholesky_solve(jac @ grad[..., None], chol)
        g_jac = g_damping = None
        if ctx.needs_input_grad[0]:
            rest = grad - (jac.mT @ u)[..., 0]
            g_jac = x * rest[..., None, :] - u * step[..., None, :]
        if ctx.needs_input_grad[2]:
            g_damping = (-2 * damping * (u * x).sum(dim=(-2, -1))).sum_to_size(damping.shape)
        return g_jac, u[..., 0], g_damping


def _alignment(quats: Tensor, weights: Tensor) -> Tensor:
    """+1 / -1 per vertex and joint: which of q, -q lies in the hemisphere of the dominant joint."""
    real = quats[:, :4]
    cosines = real @ real.T
    rows = cosines[weights.argmax(dim=-1)]
    return torch.where(rows < 0, -torch.ones_like(rows), torch.ones_like(rows))


class DualQuaternionSkin(Function):
    """Linear blend of unit dual quaternions.

    q and -q are the same motion, so each joint is first flipped to the hemisphere of the joint with the
    largest weight at that vertex. The blend is divided by the norm of its real part.

    Parameters
    ----------
    quats : Tensor (J, 8)
        Real part first.
    weights : Tensor (V, J)
        Skinning weights.

    Returns
    -------
    Tensor (V, 8)
    """

    @staticmethod
    def forward(ctx, quats, weights):
        sign = _alignment(quats, weights)
        blend = (weights * sign) @ quats
        norm = torch.linalg.vector_norm(blend[:, :4], dim=-1, keepdim=True)
        out = blend / norm
        ctx.save_for_backward(quats, weights, sign, norm, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        quats, weights, sign, norm, out = ctx.saved_tensors
        radial = (grad * out).sum(-1, keepdim=True)
        g_blend = torch.cat([grad[:, :4] - radial * out[:, :4], grad[:, 4:]], dim=-1) / norm
        g_quats = g_weights = None
        if ctx.needs_input_grad[0]:
            g_quats = (weights * sign).T @ g_blend
        if ctx.needs_input_grad[1]:
            g_weights = g_blend @ quats.T
        return g_quats, g_weights


class HandSkin(nn.Module):
    def __init__(self, vertices: int, joints: int):
        super().__init__()
        self.logits = nn.Parameter(0.01 * torch.randn(vertices, joints))

    def forward(self, quats: Tensor, rest: Tensor) -> Tensor:
        dq = DualQuaternionSkin.apply(quats, self.logits.softmax(-1))
        w, v = dq[:, :1], dq[:, 1:4]
        turned = rest + 2 * torch.linalg.cross(v, torch.linalg.cross(v, rest) + w * rest)
        shift = 2 * (w * dq[:, 5:] - dq[:, 4:5] * v + torch.linalg.cross(v, dq[:, 5:]))
        return turned + shift
