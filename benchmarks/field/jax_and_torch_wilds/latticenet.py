"""Building blocks of a small crystal-graph network.

Graphs of a batch are concatenated; ``batch[i]`` names the crystal of atom
``i`` and ``edges`` is a ``(2, E)`` long tensor of (centre, neighbour) pairs.
"""

import math
from typing import NamedTuple

import torch
import torch.nn as nn
from torch.autograd import Function


class Crystals(NamedTuple):
    frac: torch.Tensor      # (N, 3) fractional coordinates
    cell: torch.Tensor      # (B, 3, 3) lattice vectors as rows
    batch: torch.Tensor     # (N,) long
    edges: torch.Tensor     # (2, E) long


class GroupedMessage(Function):

    @staticmethod
    def forward(ctx, gate, value, edges):
        centre, neighbour = edges
        n_groups = gate.shape[1]
        width = value.shape[1] // n_groups
        full = gate.repeat_interleave(width, dim=1)
        ctx.save_for_backward(gate, value, edges)
        out = torch.zeros_like(value)
        return out.index_add(0, centre, full * value[neighbour])

    @staticmethod
    def backward(ctx, grad_out):
        gate, value, edges = ctx.saved_tensors
        centre, neighbour = edges
        n_edges, n_groups = gate.shape
        width = value.shape[1] // n_groups
        grad_msg = grad_out[centre]
        grad_gate = (grad_msg * value[neighbour]).view(n_edges, width, n_groups).sum(1)
        full = gate.repeat_interleave(width, dim=1)
        grad_value = torch.zeros_like(value).index_add(0, neighbour, grad_msg * full)
        return grad_gate, grad_value, None


class MinimumImage(Function):
    """Vectors and lengths of the edges under periodic boundaries.

    Inputs: frac ``(N, 3)``, cell ``(B, 3, 3)`` (rows are lattice vectors),
    batch ``(N,)``, edges ``(2, E)``.  Outputs: vectors ``(E, 3)`` from centre
    to the nearest image of the neighbour, lengths ``(E,)``.  Both atoms of an
    edge belong to the same crystal and are distinct.
    """

    @staticmethod
    def forward(ctx, frac, cell, batch, edges):
        i, j = edges
        delta = frac[j] - frac[i]
        delta = delta - delta.round()
        which = batch[i]
        vec = torch.einsum("ea,eab->eb", delta, cell[which])
        length = vec.norm(dim=-1)
        ctx.save_for_backward(delta, cell, which, edges, vec, length)
        ctx.n_atoms = frac.shape[0]
        return vec, length

    @staticmethod
    def backward(ctx, grad_vec, grad_len):
        delta, cell, which, edges, vec, length = ctx.saved_tensors
        total = grad_vec + (grad_len / length).unsqueeze(-1) * vec
        grad_delta = torch.einsum("eb,eab->ea", total, cell[which])
        grad_frac = total.new_zeros(ctx.n_atoms, 3)
        grad_frac.index_add_(0, edges[1], grad_delta)
        grad_frac.index_add_(0, edges[0], -grad_delta)
        outer = delta.unsqueeze(-1) * total.unsqueeze(-2)
        grad_cell = torch.zeros_like(cell).index_add_(0, which, outer)
        return grad_frac, grad_cell, None, None


def edge_geometry(crystals: Crystals):
    return MinimumImage.apply(*crystals)


class RadialBasis(Function):
    """Gaussian features of a distance under a cosine cutoff.

    dist:      (E,)  distances, positive
    centers:   (K,)  positions of the Gaussians
    log_width: (K,)  log of their standard deviations
    cutoff:    float; features vanish smoothly at and beyond it

    returns    (E, K)
    """

    @staticmethod
    def forward(dist, centers, log_width, cutoff):
        z = (dist[:, None] - centers) * torch.exp(-log_width)
        return torch.exp(-0.5 * z * z) * RadialBasis.taper(dist, cutoff)[:, None]

    @staticmethod
    def taper(dist, cutoff):
        inside = 0.5 * (torch.cos(math.pi * dist / cutoff) + 1.0)
        return torch.where(dist < cutoff, inside, torch.zeros_like(dist))

    @staticmethod
    def taper_slope(dist, cutoff):
        inside = -0.5 * math.pi / cutoff * torch.sin(math.pi * dist / cutoff)
        return torch.where(dist < cutoff, inside, torch.zeros_like(dist))

    @staticmethod
    def setup_context(ctx, inputs, output):
        dist, centers, log_width, ctx.cutoff = inputs
        ctx.save_for_backward(dist, centers, log_width)

    @staticmethod
    def backward(ctx, grad):
        dist, centers, log_width = ctx.saved_tensors
        inv = torch.exp(-log_width)
        z = (dist[:, None] - centers) * inv
        bump = torch.exp(-0.5 * z * z)
        fade = RadialBasis.taper(dist, ctx.cutoff)[:, None]
        grad_z = -grad * bump * fade * z
        grad_dist = (grad_z * inv).sum(1) + (grad * bump).sum(1) * RadialBasis.taper_slope(dist, ctx.cutoff)
        grad_centers = -(grad_z * inv).sum(0)
        grad_log_width = -(grad_z * z).sum(0)
        return grad_dist, grad_centers, grad_log_width, None


class CrystalConv(nn.Module):
    """Distance-gated convolution; ``groups`` gates share ``channels`` features."""

    def __init__(self, channels: int, groups: int = 1, n_basis: int = 8, cutoff: float = 5.0):
        super().__init__()
        if channels % groups:
            raise ValueError("channels must be a multiple of groups")
        self.cutoff = cutoff
        self.centers = nn.Parameter(torch.linspace(0.5, cutoff, n_basis))
        self.log_width = nn.Parameter(torch.full((n_basis,), math.log(cutoff / n_basis)))
        self.gate = nn.Linear(n_basis, groups)
        self.value = nn.Linear(channels, channels, bias=False)

    def forward(self, feats: torch.Tensor, crystals: Crystals) -> torch.Tensor:
        """feats: (N, channels)."""
        _, length = edge_geometry(crystals)
        basis = RadialBasis.apply(length, self.centers, self.log_width, self.cutoff)
        gate = torch.sigmoid(self.gate(basis))                # (E, groups)
        return feats + GroupedMessage.apply(gate, self.value(feats), crystals.edges)


class DiffractionIntensity(Function):
    """Kinematic intensity per atom, for padded crystals.

    .. math:: I_{bh} = \\frac{1}{n_b} \\Big| \\sum_i m_{bi} f_{bi}
              \\exp(2\\pi i\\, h \\cdot x_{bi}) \\Big|^2

    Args:
        frac: ``(batch, atoms, 3)`` fractional coordinates.
        weight: ``(batch, atoms)`` scattering weights f.
        mask: ``(batch, atoms)`` bool, true for real atoms; n_b counts them
            (every crystal has at least one).
        hkl: ``(reflections, 3)`` Miller indices, long.

    Returns:
        ``(batch, reflections)``.
    """

    @staticmethod
    def forward(ctx, frac, weight, mask, hkl):
        hkl = hkl.to(frac.dtype)
        phase = 2.0 * math.pi * torch.einsum("bik,hk->bhi", frac, hkl)
        live = (weight * mask).unsqueeze(1)
        re = (live * phase.cos()).sum(-1)
        im = (live * phase.sin()).sum(-1)
        count = mask.sum(dim=1, keepdim=True).to(frac.dtype)
        ctx.save_for_backward(phase, weight, mask, hkl, re, im)
        return (re.square() + im.square()) / count

    @staticmethod
    def backward(ctx, grad):
        phase, weight, mask, hkl, re, im = ctx.saved_tensors
        n_atoms = weight.shape[1]
        grad_re = (2.0 / n_atoms) * grad * re
        grad_im = (2.0 / n_atoms) * grad * im
        cos, sin = phase.cos(), phase.sin()
        grad_live = (grad_re.unsqueeze(-1) * cos + grad_im.unsqueeze(-1) * sin).sum(1)
        live = (weight * mask).unsqueeze(1)
        grad_phase = live * (grad_im.unsqueeze(-1) * cos - grad_re.unsqueeze(-1) * sin)
        grad_frac = 2.0 * math.pi * torch.einsum("bhi,hk->bik", grad_phase, hkl)
        return grad_frac, grad_live * mask, None, None


class PowderLoss(nn.Module):
    """Squared error between computed and measured intensities."""

    def __init__(self, hkl: torch.Tensor):
        super().__init__()
        self.register_buffer("hkl", hkl)

    def forward(self, frac, weight, mask, measured):
        got = DiffractionIntensity.apply(frac, weight, mask, self.hkl)
        return (got - measured).square().mean()
