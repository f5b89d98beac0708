"""Differentiable pieces of the pose optimiser and of the pocket encoder.

Everything works on flat atom lists: a batch of molecules is one list of atoms and a vector of
molecule ids.  Functions that score poses work on ``(poses, atoms, 3)``.
"""
import math

import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable


class AttentionReadout(Function):
    """Multi-head attention pooling of atoms into molecules.

    forward(scores, values, mol, n_mols, temperature)
        scores: FloatTensor[atoms, heads]
        values: FloatTensor[atoms, heads, channels]
        mol: LongTensor[atoms], molecule of each atom, in any order
        returns FloatTensor[n_mols, heads, channels]; zeros for a molecule with no atoms
    """

    @staticmethod
    def forward(ctx, scores, values, mol, n_mols, temperature=1.0):
        logits = scores / temperature
        index = mol[:, None].expand_as(logits)
        top = logits.new_full((n_mols, logits.shape[1]), -math.inf)
        top = top.scatter_reduce(0, index, logits, "amax")
        weight = torch.exp(logits - top[mol])
        total = weight.new_zeros(n_mols, logits.shape[1]).index_add_(0, mol, weight)
        weight = weight / total[mol]
        pooled = values.new_zeros((n_mols,) + values.shape[1:])
        pooled.index_add_(0, mol, weight[..., None] * values)
        ctx.save_for_backward(weight, values, mol, pooled)
        ctx.temperature = temperature
        return pooled

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        weight, values, mol, pooled = ctx.saved_tensors
        g = grad[mol]
        grad_values = weight[..., None] * g
        # sum over the molecule of weight * <g, value> is <g, pooled>
        centred = (g * values).sum(-1) - (grad * pooled).sum(-1)[mol]
        return weight * centred / ctx.temperature, grad_values, None, None, None


class PocketReadout(nn.Module):
    def __init__(self, width, heads=4, temperature=1.0):
        super().__init__()
        if width % heads:
            raise ValueError("width must be a multiple of heads")
        self.heads, self.temperature = heads, temperature
        self.score = nn.Linear(width, heads)
        self.value = nn.Linear(width, width)

    def forward(self, atoms, mol, n_mols=None):
        n_mols = int(mol.max()) + 1 if n_mols is None else n_mols
        values = self.value(atoms).view(atoms.shape[0], self.heads, -1)
        out = AttentionReadout.apply(self.score(atoms), values, mol, n_mols, self.temperature)
        return out.flatten(1)


# ----------------------------------------------------------------------------- steric term
def _scatter_table(values, rows, cols, n):
    table = values.new_zeros(n, n)
    table[rows, cols] = values
    return table


class TypedLennardJones(Function):
    """Lennard-Jones energy over a pair list with learnable type tables.

    coords (atoms, 3); kinds (atoms,) long; pairs (2, n_pairs) long, no atom with itself;
    eps, sigma (n_kinds, n_kinds), read at ``[kinds[i], kinds[j]]``.  Returns the summed energy.
    """

    @staticmethod
    def forward(ctx, coords, kinds, pairs, eps, sigma):
        i, j = pairs
        ti, tj = kinds[i], kinds[j]
        gap = coords[i] - coords[j]
        d2 = (gap * gap).sum(-1)
        s6 = (sigma[ti, tj] ** 2 / d2) ** 3
        ctx.save_for_backward(coords, pairs, ti, tj, gap, d2, s6, eps, sigma)
        return (4.0 * eps[ti, tj] * (s6 * s6 - s6)).sum()

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        coords, pairs, ti, tj, gap, d2, s6, eps, sigma = ctx.saved_tensors
        i, j = pairs
        e = eps[ti, tj]
        d_s6 = 4.0 * e * (2.0 * s6 - 1.0) * grad
        force = (-6.0 * d_s6 * s6 / d2)[:, None] * gap
        g_coords = torch.zeros_like(coords).index_add_(0, i, force).index_add_(0, j, -force)
        n = eps.shape[0]
        g_eps = _scatter_table(4.0 * (s6 * s6 - s6) * grad, ti, tj, n)
        g_sigma = _scatter_table(6.0 * d_s6 * s6 / sigma[ti, tj], ti, tj, n)
        return g_coords, None, None, g_eps, g_sigma


class StericTerm(nn.Module):
    """Clash term of the scoring function; the tables start from mixed per-element radii."""

    def __init__(self, radii):
        super().__init__()
        radii = torch.as_tensor(radii, dtype=torch.get_default_dtype())
        self.log_eps = nn.Parameter(torch.zeros(len(radii), len(radii)))
        self.sigma = nn.Parameter(0.5 * (radii[:, None] + radii[None, :]))

    def forward(self, coords, kinds, pairs):
        return TypedLennardJones.apply(coords, kinds, pairs, self.log_eps.exp(), self.sigma)


# ----------------------------------------------------------------------------- rigid poses
def _cross(a, b):
    return torch.linalg.cross(a, b, dim=-1)


def _turn(w, v, p):
    return p + 2.0 * w * _cross(v, p) + 2.0 * _cross(v, _cross(v, p))


class PlaceLigand(Function):
    """Place a rigid template in many poses.

    The quaternions (scalar first) need not be of unit length; they are normalised inside.
    """

    @staticmethod
    def forward(ctx, template, quat, shift):
        """template: (atoms, 3), quat: (poses, 4), shift: (poses, 3) -> (poses, atoms, 3)"""
        size = quat.norm(dim=-1, keepdim=True)
        unit = quat / size
        ctx.save_for_backward(template, unit, size)
        w, v = unit[:, None, :1], unit[:, None, 1:]
        points = template[None].expand(quat.shape[0], -1, -1)
        return _turn(w, v.expand_as(points), points) + shift[:, None]

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        template, unit, size = ctx.saved_tensors
        p = template[None].expand_as(grad)
        w, v = unit[:, None, :1], unit[:, None, 1:].expand_as(grad)
        g_w = 2.0 * (grad * _cross(v, p)).sum(-1).sum(1, keepdim=True)
        dot = lambda a, b: (a * b).sum(-1, keepdim=True)
        g_v = 2.0 * w * _cross(p, grad) + 2.0 * (
            dot(v, p) * grad + dot(v, grad) * p - 2.0 * dot(grad, p) * v)
        g_unit = torch.cat([g_w, g_v.sum(1)], -1)
        g_quat = (g_unit - unit * dot(unit, g_unit)) / size
        return _turn(w, -v, grad).sum(0), g_quat, grad.sum(1)


# ----------------------------------------------------------------------------- shape similarity
def _overlap(x, y, mx, my, kappa):
    gap = x[:, :, None] - y[:, None]
    e = torch.exp(-kappa * (gap * gap).sum(-1)) * mx[:, :, None] * my[:, None]
    pull = -2.0 * kappa * e[..., None] * gap
    return e.sum((1, 2)), pull


class ShapeTanimoto(Function):
    """Gaussian shape Tanimoto between two batches of molecules.

    Args:
        a: (batch, n, 3) coordinates
        b: (batch, m, 3) coordinates
        mask_a: (batch, n) 1 for atoms, 0 for padding
        mask_b: (batch, m)
        kappa: sharpness of the atomic Gaussians

    Returns (batch,): V_ab / (V_aa + V_bb - V_ab), V the summed pair overlaps.
    """

    @staticmethod
    def forward(ctx, a, b, mask_a, mask_b, kappa=0.4):
        mask_a, mask_b = mask_a.to(a.dtype), mask_b.to(b.dtype)
        v_ab, p_ab = _overlap(a, b, mask_a, mask_b, kappa)
        v_aa, p_aa = _overlap(a, a, mask_a, mask_a, kappa)
        v_bb, p_bb = _overlap(b, b, mask_b, mask_b, kappa)
        ctx.save_for_backward(v_ab, v_aa, v_bb, p_ab.sum(2), -p_ab.sum(1), p_aa.sum(2), p_bb.sum(2))
        return v_ab / (v_aa + v_bb - v_ab)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        v_ab, v_aa, v_bb, ab_a, ab_b, aa, bb = ctx.saved_tensors
        lead = (grad / (v_aa + v_bb - v_ab) ** 2)[:, None, None]
        both, cross = (v_aa + v_bb)[:, None, None], v_ab[:, None, None]
        g_a = lead * (both * ab_a - cross * aa)
        g_b = lead * (both * ab_b - cross * bb)
        return g_a, g_b, None, None, None


def shape_loss(poses, reference, kappa=0.4):
    """One minus the similarity of each pose (poses, n, 3) to one reference ligand (m, 3)."""
    ref = reference[None].expand(poses.shape[0], -1, -1)
    ones = poses.new_ones(poses.shape[:2]), ref.new_ones(ref.shape[:2])
    return 1.0 - ShapeTanimoto.apply(poses, ref, *ones, kappa)
