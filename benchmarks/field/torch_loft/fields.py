"""Graph pooling, image registration and lattice Boltzmann kernels.

The three live together because the flow-estimation recipes use all of them.
"""
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import Function


def _degrees(adj: Tensor) -> Tensor:
    return adj.sum(-1)


class MinCutFunction(Function):
    """Relaxed normalised cut, ``-tr(S'AS) / tr(S'DS)``, for each graph.

    assign: (B, N, K) soft assignment; adj: (B, N, N) non-negative weights of
    the edges, directed ones too, ``D`` holding the row sums. Returns (B,).
    """

    @staticmethod
    def forward(ctx, assign, adj):
        mixed = adj @ assign
        mass = assign.square().sum(-1)
        deg = _degrees(adj)
        num = (assign * mixed).sum((-1, -2))
        den = (deg * mass).sum(-1)
        ctx.save_for_backward(assign, mixed, mass, deg, num, den)
        return -num / den

    @staticmethod
    def backward(ctx, grad):
        assign, mixed, mass, deg, num, den = ctx.saved_tensors
        g_num = (-grad / den)[:, None, None]
        g_den = (grad * num / den.square())[:, None, None]
        g_assign = 2 * g_num * mixed + 2 * g_den * deg[..., None] * assign
        g_adj = g_num * (assign @ assign.transpose(1, 2)) + g_den * mass[..., None]
        return g_assign, g_adj


def mincut_pool(x, adj, logits):
    s = logits.softmax(-1)
    st = s.transpose(1, 2)
    return st @ x, st @ adj @ s, MinCutFunction.apply(s, adj)


def _box(x: Tensor, window: int) -> Tensor:
    return F.avg_pool2d(x, window, 1, window // 2, count_include_pad=True) * window ** 2


def _local_stats(fixed: Tensor, moving: Tensor, window: int):
    n = window ** 2
    fs, ms = _box(fixed, window), _box(moving, window)
    cross = _box(fixed * moving, window) - fs * ms / n
    fvar = _box(fixed * fixed, window) - fs * fs / n
    mvar = _box(moving * moving, window) - ms * ms / n
    return fs, ms, cross, fvar, mvar


@torch.library.custom_op("loft_fields::local_ncc", mutates_args=())
def local_ncc(fixed: Tensor, moving: Tensor, window: int = 9, eps: float = 1e-5,
              reduction: str = "mean") -> Tensor:
    """Negative squared local correlation of two images (B, C, H, W).

    ``window`` is odd; the images are taken as zero outside.
    ``reduction`` is "mean" or "sum".
    """
    _, _, cross, fvar, mvar = _local_stats(fixed, moving, window)
    cc = cross.square() / (fvar * mvar + eps)
    return -(cc.mean() if reduction == "mean" else cc.sum())


@local_ncc.register_fake
def _(fixed, moving, window=9, eps=1e-5, reduction="mean"):
    return fixed.new_empty(())


def _ncc_setup(ctx, inputs, output):
    fixed, moving, ctx.window, ctx.eps, ctx.reduction = inputs
    ctx.save_for_backward(fixed, moving)


def _ncc_backward(ctx, grad):
    fixed, moving = ctx.saved_tensors
    w = ctx.window
    n = w ** 2
    fs, ms, cross, fvar, mvar = _local_stats(fixed, moving, w)
    g = -grad / fixed.numel() if ctx.reduction == "mean" else -grad
    q = 1 / (fvar * mvar + ctx.eps)
    g_cross = g * 2 * cross * q
    pull = -g * (cross * q).square()
    g_fvar, g_mvar = pull * mvar, pull * fvar
    b_cross = _box(g_cross, w)
    g_fixed = b_cross * moving + 2 * fixed * _box(g_fvar, w) - _box(g_cross * ms + 2 * g_fvar * fs, w) / n
    g_moving = b_cross * fixed + 2 * moving * _box(g_mvar, w) - _box(g_cross * fs + 2 * g_mvar * ms, w) / n
    return g_fixed, g_moving, None, None, None


local_ncc.register_autograd(_ncc_backward, setup_context=_ncc_setup)


_VEL = ((0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1))
_WGT = (4 / 9,) + (1 / 9,) * 4 + (1 / 36,) * 4


class BGKCollideFunction(Function):
    @staticmethod
    def forward(ctx, f, omega):
        vel = f.new_tensor(_VEL)
        wgt = f.new_tensor(_WGT)[:, None, None]
        rho = f.sum(1, keepdim=True)
        u = torch.einsum("bihw,ia->bahw", f, vel) / rho
        cu = torch.einsum("bahw,ia->bihw", u, vel)
        shape = 1 + 3 * cu + 4.5 * cu.square() - 1.5 * u.square().sum(1, keepdim=True)
        feq = wgt * rho * shape
        ctx.save_for_backward(f, omega, rho, u, cu, shape)
        return f + omega * (feq - f), rho, u

    @staticmethod
    def backward(ctx, g_f, g_rho, g_u):
        f, omega, rho, u, cu, shape = ctx.saved_tensors
        vel = f.new_tensor(_VEL)
        wgt = f.new_tensor(_WGT)[:, None, None]
        g_omega = (g_f * (wgt * rho * shape - f)).sum_to_size(omega.shape)
        g_eq = omega * g_f * wgt
        g_rho = g_rho + (g_eq * shape).sum(1, keepdim=True)
        g_u = g_u + rho * (torch.einsum("bihw,ia->bahw", g_eq * (3 + 9 * cu), vel)
                           - 3 * u * g_eq.sum(1, keepdim=True))
        g_mom = g_u / rho
        g_rho = g_rho - (g_mom * u).sum(1, keepdim=True)
        g = (1 - omega) * g_f + g_rho + torch.einsum("bahw,ia->bihw", g_mom, vel)
        return g, g_omega


class Lattice(torch.nn.Module):
    """D2Q9 stepper on a periodic grid; populations are (B, 9, H, W)."""

    def __init__(self, viscosity=0.05, *, spatial=None):
        super().__init__()
        omega = torch.full((1, 1) + (tuple(spatial) if spatial else (1, 1)), 1 / (3 * viscosity + 0.5))
        self.omega = torch.nn.Parameter(omega)

    def forward(self, f):
        f, rho, u = BGKCollideFunction.apply(f, self.omega)
        moved = [f[:, i].roll((cy, cx), (-2, -1)) for i, (cx, cy) in enumerate(_VEL)]
        return torch.stack(moved, 1), rho, u
