"""Energy, kinetics and solution terms used by the plant simulator."""
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

R_GAS = 8.31446261815324


class ImpedanceEnergy(Function):
    """Virtual-spring cost of an impedance-controlled arm.

    Computes ``0.5 * e^T K e`` per sample, with ``e = q - q_ref``.

    Args:
        q: joint positions, ``(B, n)``.
        q_ref: reference positions, ``(B, n)``, or ``(n,)`` to hold one pose for the whole batch.
        K: stiffness, ``(n, n)``. Any real matrix is accepted; identified stiffnesses with coupling
            between the joints are in general not symmetric.

    Returns:
        Energies of shape ``(B,)``. Gradients flow to ``q``, ``q_ref`` and ``K``.
    """

    @staticmethod
    def forward(q, q_ref, K):
        e = q - q_ref
        return 0.5 * torch.einsum("bi,ij,bj->b", e, K, e)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        q, q_ref, K = ctx.saved_tensors
        e = q - q_ref
        grad_e = g[:, None] * (e @ K.T)
        grad_ref = -grad_e
        if q_ref.dim() == 1:
            grad_ref = grad_ref.sum(0)
        grad_K = 0.5 * torch.einsum("b,bi,bj->ij", g, e, e)
        return grad_e, grad_ref, grad_K


class ModifiedArrhenius(Function):
    """Rate constants A (T / T0)^n exp(-Ea / R T) of every reaction at every temperature, (B,) x (R,) -> (B, R)."""

    @staticmethod
    def forward(ctx, T, A, Ea, n, T0=298.15):
        T_ = T[:, None]
        k = A * (T_ / T0) ** n * torch.exp(-Ea / (R_GAS * T_))
        ctx.save_for_backward(T_, A, Ea, n, k)
        ctx.T0 = T0
        return k

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        T_, A, Ea, n, k = ctx.saved_tensors
        gk = g * k
        inv_rt = 1.0 / (R_GAS * T_)
        dT = (gk * Ea * inv_rt / T_).sum(1)
        dA = gk.sum(0) / A
        dEa = -(gk * inv_rt).sum(0)
        dn = (gk * torch.log(T_ / ctx.T0)).sum(0)
        return dT, dA, dEa, dn, None


class Kinetics(nn.Module):
    def __init__(self, A, Ea, n=None):
        super().__init__()
        self.log_A = nn.Parameter(A.log())
        self.Ea = nn.Parameter(Ea.clone())
        self.n = nn.Parameter(torch.zeros_like(A) if n is None else n.clone())

    def forward(self, T):
        return ModifiedArrhenius.apply(T, self.log_A.exp(), self.Ea, self.n)


class TruesdellJones(Function):
    @staticmethod
    def forward(conc, z, size, b, A=0.5085, B=0.3281):
        root = (0.5 * (conc * z**2).sum(-1, keepdim=True)).sqrt()
        return -A * z**2 * root / (1 + B * size * root) + b * root**2

    @staticmethod
    def setup_context(ctx, inputs, output):
        conc, z, size, b, ctx.A, ctx.B = inputs
        ctx.save_for_backward(conc, z, size, b)

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        conc, z, size, b = ctx.saved_tensors
        z2 = z**2
        I = 0.5 * (conc * z2).sum(-1, keepdim=True)
        root = I.sqrt()
        den = 1 + ctx.B * size * root
        gI = (g * (b - ctx.A * z2 / (2 * root * den**2))).sum(-1, keepdim=True)
        gsize = (g * ctx.A * ctx.B * z2 * I / den**2).sum_to_size(size.shape)
        gb = (g * I).sum_to_size(b.shape)
        return gI * 0.5 * z2, None, gsize, gb, None, None


def log10_activity(conc, z, size, b, A=0.5085, B=0.3281):
    return TruesdellJones.apply(conc, z, size, b, A, B)
