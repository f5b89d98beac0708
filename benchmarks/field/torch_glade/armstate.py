"""Costs and transforms for gradient-based manipulator planning."""
from __future__ import annotations

import torch
from torch.autograd import Function


class YoshikawaMeasure(Function):
    """Manipulability ``sqrt(det(G + damping^2 I))`` of a stack of Jacobians.

    Parameters
    ----------
    jac : Tensor (..., m, n)
        Task Jacobians of full rank (any rank if ``damping > 0``).
    joint_scale : Tensor (n,) or None
        Optional scaling of the columns, e.g. joint speed limits.
    damping : float
    log : bool
        Return the logarithm of the measure instead.

    Notes
    -----
    G is the smaller of the two Gram matrices: ``J J^T`` for m <= n, ``J^T J`` otherwise.
    """

    @staticmethod
    def forward(ctx, jac, joint_scale, damping=0.0, log=False):
        scaled = jac if joint_scale is None else jac * joint_scale
        wide = jac.shape[-2] <= jac.shape[-1]
        gram = scaled @ scaled.mT if wide else scaled.mT @ scaled
        gram = gram + damping**2 * torch.eye(gram.shape[-1], dtype=jac.dtype, device=jac.device)
        chol = torch.linalg.cholesky(gram)
        half_logdet = chol.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        out = half_logdet if log else half_logdet.exp()
        ctx.wide, ctx.log = wide, log
        if joint_scale is None:
            ctx.save_for_backward(jac, chol, out)
        else:
            ctx.save_for_backward(jac, chol, out, joint_scale)
        return out

    @staticmethod
    def backward(ctx, grad):
        jac, chol, out, *rest = ctx.saved_tensors
        scaled = jac * rest[0] if rest else jac
        if ctx.wide:
            g = torch.cholesky_solve(scaled, chol)
        else:
            g = torch.cholesky_solve(scaled.mT, chol).mT
        factor = grad if ctx.log else grad * out
        g = g * factor[..., None, None]
        if not rest:
            return g, None, None, None
        g_scale = None
        if ctx.needs_input_grad[1]:
            g_scale = (g * jac).sum(-2).reshape(-1, jac.shape[-1]).sum(0)
        return g * rest[0], g_scale, None, None


class WrenchTransport(Function):
    """Express contact wrenches in another frame.

    ``rot`` (B, 3, 3) takes vectors of the contact frame into the target frame and
    ``lever`` (B, 3) is the contact point seen from the target origin, or None when both
    frames share their origin. ``wrench`` is (B, 6), force first::

        f' = R f
        t' = R t + lever x (R f)
    """

    @staticmethod
    def forward(rot, wrench, lever):
        force = torch.einsum("bij,bj->bi", rot, wrench[:, :3])
        torque = torch.einsum("bij,bj->bi", rot, wrench[:, 3:])
        if lever is not None:
            torque = torque + torch.linalg.cross(lever, force)
        return torch.cat([force, torque], dim=-1)

    @staticmethod
    def setup_context(ctx, inputs, output):
        rot, wrench, lever = inputs
        ctx.has_lever = lever is not None
        if ctx.has_lever:
            ctx.save_for_backward(rot, wrench, lever, output)
        else:
            ctx.save_for_backward(rot, wrench)

    @staticmethod
    def backward(ctx, grad):
        rot, wrench = ctx.saved_tensors[:2]
        g_force, g_torque = grad[:, :3], grad[:, 3:]
        g_rot = g_wrench = g_lever = None
        if ctx.needs_input_grad[0]:
            g_rot = (
                g_force[:, :, None] * wrench[:, None, :3]
                + g_torque[:, :, None] * wrench[:, None, 3:]
            )
        if ctx.has_lever:
            lever, out = ctx.saved_tensors[2:]
            if ctx.needs_input_grad[2]:
                g_lever = torch.linalg.cross(out[:, :3], g_torque)
            g_force = g_force + torch.linalg.cross(g_torque, lever)
        if ctx.needs_input_grad[1]:
            g_wrench = torch.cat(
                [
                    torch.einsum("bij,bi->bj", rot, g_force),
                    torch.einsum("bij,bi->bj", rot, g_torque),
                ],
                dim=-1,
            )
        return g_rot, g_wrench, g_lever


class TorqueSaturation(Function):
    """Clamp commanded torques to the actuator limits.

    The backward pass is not the derivative of the clamp, on purpose: beyond a limit the
    gradient is passed unchanged when a descent step would bring the command back towards
    the admissible range, and dropped when it would push it further out. Inside the limits it
    is the identity. The limits (n,) are hardware constants and get no gradient.
    """

    @staticmethod
    def forward(ctx, torque, low, high):
        ctx.save_for_backward(torque, low, high)
        return torch.maximum(torch.minimum(torque, high), low)

    @staticmethod
    def backward(ctx, grad):
        torque, low, high = ctx.saved_tensors
        blocked = ((torque > high) & (grad < 0)) | ((torque < low) & (grad > 0))
        return grad.masked_fill(blocked, 0.0), None, None


def manipulability_cost(jac, joint_scale=None, damping=1e-3):
    """Mean negative log manipulability along a trajectory."""
    return -YoshikawaMeasure.apply(jac, joint_scale, damping, True).mean()


def net_wrench(rot, wrench, lever=None):
    return WrenchTransport.apply(rot, wrench, lever).sum(0)


def optimise_torques(dynamics, target, low, high, steps=50, lr=0.1):
    tau = torch.zeros_like(low, requires_grad=True)
    opt = torch.optim.SGD([tau], lr=lr)
    for _ in range(steps):
        opt.zero_grad()
        (dynamics(TorqueSaturation.apply(tau, low, high)) - target).square().sum().backward()
        opt.step()
    return tau.detach().clamp(low, high)
