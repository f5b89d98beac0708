"""Energy terms and descriptors for small atomistic models.

Positions are ``(N, 3)``. Neighbour, bond and triplet tables are integer tensors that index atoms; an atom may occur
in them any number of times.
"""

import math
from typing import Optional

import torch
from torch import nn
from torch.autograd import Function


class BehlerRadial(Function):
    r"""Radial (G2) symmetry functions of Behler and Parrinello.

    .. math:: G_{im} = \sum_{j \in \mathcal N(i)} e^{-\eta_m (r_{ij} - s_m)^2} f_c(r_{ij}),
              \quad f_c(r) = \tfrac12 (\cos(\pi r / r_c) + 1)\ \text{for } r < r_c \text{ else } 0

    Parameters
    ----------
    pos : Tensor, shape (N, 3)
    eta, shift : Tensor, shape (M,)
        Widths and centres of the radial functions (trainable).
    pairs : LongTensor, shape (P, 2)
        Directed neighbour list ``(i, j)``; ``i`` is the central atom. Atoms of a pair do not coincide.
    images : Tensor or None, shape (P, 3)
        Lattice translation added to ``pos[j] - pos[i]``; constant, no gradient.
    cutoff : float

    Returns
    -------
    Tensor, shape (N, M)
    """

    @staticmethod
    def _geometry(pos, pairs, images):
        d = pos[pairs[:, 1]] - pos[pairs[:, 0]]
        if images is not None:
            d = d + images
        return d, d.norm(dim=-1, keepdim=True)

    @staticmethod
    def forward(ctx, pos, eta, shift, pairs, images, cutoff):
        _, r = BehlerRadial._geometry(pos, pairs, images)
        fc = 0.5 * (torch.cos(math.pi * r / cutoff) + 1) * (r < cutoff)
        g = torch.exp(-eta * (r - shift) ** 2) * fc
        ctx.save_for_backward(pos, eta, shift, pairs, images)
        ctx.cutoff = cutoff
        return g.new_zeros(pos.shape[0], eta.shape[0]).index_add(0, pairs[:, 0], g)

    @staticmethod
    def backward(ctx, grad_out):
        pos, eta, shift, pairs, images = ctx.saved_tensors
        rc = ctx.cutoff
        d, r = BehlerRadial._geometry(pos, pairs, images)
        near = r < rc
        fc = 0.5 * (torch.cos(math.pi * r / rc) + 1) * near
        dfc = -0.5 * math.pi / rc * torch.sin(math.pi * r / rc) * near
        x = r - shift
        gauss = torch.exp(-eta * x * x)
        up = grad_out[pairs[:, 0]] * gauss

        grad_pos = grad_eta = grad_shift = None
        if ctx.needs_input_grad[0]:
            radial = (up * (dfc - 2 * eta * x * fc)).sum(-1, keepdim=True)
            force = radial * d / r
            grad_pos = (
                torch.zeros_like(pos)
                .index_add(0, pairs[:, 1], force)
                .index_add(0, pairs[:, 0], -force)
            )
        if ctx.needs_input_grad[1]:
            grad_eta = -(up * x * x * fc).sum(0)
        if ctx.needs_input_grad[2]:
            grad_shift = (up * 2 * eta * x * fc).sum(0)
        return grad_pos, grad_eta, grad_shift, None, None, None


class RadialDescriptor(nn.Module):
    """Learnable set of :class:`BehlerRadial` functions on an even grid of centres."""

    def __init__(self, n_basis: int = 8, cutoff: float = 5.0):
        super().__init__()
        self.cutoff = cutoff
        self.eta = nn.Parameter(torch.full((n_basis,), (n_basis / cutoff) ** 2))
        self.shift = nn.Parameter(torch.linspace(0.5, cutoff, n_basis))

    def forward(self, pos, pairs, images: Optional[torch.Tensor] = None):
        return BehlerRadial.apply(pos, self.eta, self.shift, pairs, images, self.cutoff)


class FENEBond(Function):
    r"""Finitely extensible (Kremer-Grest) bond energy as a function of the bond length.

    .. math:: U(r) = -\tfrac12 k R_0^2 \ln\left(1 - (r/R_0)^2\right)
              + 4\epsilon\left[(\sigma/r)^{12} - (\sigma/r)^6 + \tfrac14\right]_{r < 2^{1/6}\sigma}

    Parameters
    ----------
    r : Tensor, any shape
        Bond lengths, ``0 < r < r_max``.
    stiffness : Tensor
        Spring constant ``k``; scalar or of the shape of ``r``.
    r_max : float
        Maximum extension :math:`R_0`.
    epsilon, sigma : float
        Parameters of the excluded-volume part, which is cut at its minimum.

    Returns
    -------
    Tensor, shape of ``r``
    """

    @staticmethod
    def forward(ctx, r, stiffness, r_max=1.5, epsilon=1.0, sigma=1.0):
        ctx.save_for_backward(r, stiffness)
        ctx.consts = r_max, epsilon, sigma
        spring = -0.5 * stiffness * r_max**2 * torch.log1p(-((r / r_max) ** 2))
        s6 = (sigma / r) ** 6
        wca = 4 * epsilon * (s6 * s6 - s6) + epsilon
        return spring + torch.where(r < 2 ** (1 / 6) * sigma, wca, torch.zeros_like(wca))

    @staticmethod
    def backward(ctx, grad_out):
        r, stiffness = ctx.saved_tensors
        r_max, epsilon, sigma = ctx.consts
        grad_r = grad_k = None
        if ctx.needs_input_grad[0]:
            s6 = (sigma / r) ** 6
            tension = stiffness * r / (1 - (r / r_max) ** 2)
            push = -24 * epsilon * (2 * s6 * s6 - s6) / r
            grad_r = grad_out * (tension + torch.where(r < sigma, push, torch.zeros_like(push)))
        if ctx.needs_input_grad[1]:
            log_term = -0.5 * r_max**2 * torch.log1p(-((r / r_max) ** 2))
            grad_k = (grad_out * log_term).sum_to_size(stiffness.shape)
        return grad_r, grad_k, None, None, None


class BeadSpringChain(nn.Module):
    """Total bonded energy of bead-spring polymers, ``bonds`` being ``(M, 2)`` atom indices."""

    def __init__(
        self, k: float = 30.0, r_max: float = 1.5, epsilon: float = 1.0, sigma: float = 1.0
    ):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(k))
        self.consts = (r_max, epsilon, sigma)

    def forward(self, pos, bonds):
        r = (pos[bonds[:, 0]] - pos[bonds[:, 1]]).norm(dim=-1)
        return FENEBond.apply(r, self.k.to(r.dtype), *self.consts).sum()


class ReciprocalSum(Function):
    """Reciprocal-space Coulomb energy together with the charge structure factor.

    With ``S(k) = sum_i q_i exp(i k . r_i)`` the rule returns

    * ``energy`` = ``2 pi / V * sum_k exp(-|k|^2 / (4 alpha^2)) / |k|^2 * |S(k)|^2`` (scalar), and
    * ``intensity`` = ``|S(k)|^2``, one value per wave vector, which can be fitted to a scattering curve.

    Parameters
    ----------
    pos : Tensor (N, 3)
    charge : Tensor (N,)
    kvecs : Tensor (K, 3)
        Non-zero wave vectors of the (fixed) cell. No gradient.
    volume, alpha : float

    Returns
    -------
    energy : Tensor ()
    intensity : Tensor (K,)
        Both outputs are differentiable with respect to ``pos`` and ``charge``.
    """

    @staticmethod
    def _factor(pos, charge, kvecs):
        phase = kvecs @ pos.T
        c, s = torch.cos(phase), torch.sin(phase)
        return c, s, c @ charge, s @ charge

    @staticmethod
    def _weights(kvecs, volume, alpha):
        k2 = (kvecs * kvecs).sum(-1)
        return 2 * math.pi / volume * torch.exp(-k2 / (4 * alpha**2)) / k2

    @staticmethod
    def forward(ctx, pos, charge, kvecs, volume, alpha):
        _, _, re, im = ReciprocalSum._factor(pos, charge, kvecs)
        intensity = re * re + im * im
        ctx.save_for_backward(pos, charge, kvecs)
        ctx.volume, ctx.alpha = volume, alpha
        energy = ReciprocalSum._weights(kvecs, volume, alpha) @ intensity
        return energy, intensity

    @staticmethod
    def backward(ctx, grad_energy, grad_intensity):
        pos, charge, kvecs = ctx.saved_tensors
        c, s, re, im = ReciprocalSum._factor(pos, charge, kvecs)
        per_k = grad_energy * ReciprocalSum._weights(kvecs, ctx.volume, ctx.alpha)
        grad_pos = grad_charge = None
        if ctx.needs_input_grad[0]:
            # d|S|^2 / d phase_i = 2 q_i (im cos - re sin)
            swing = 2 * per_k[:, None] * (im[:, None] * c - re[:, None] * s)
            grad_pos = charge[:, None] * (swing.T @ kvecs)
        if ctx.needs_input_grad[1]:
            per_k = per_k + grad_intensity
            grad_charge = 2 * (c.T @ (per_k * re) + s.T @ (per_k * im))
        return grad_pos, grad_charge, None, None, None


class TripleDipole(Function):
    r"""Axilrod-Teller-Muto three-body dispersion.

    Each triplet contributes

    .. math:: E = \nu_i \nu_j \nu_k\,\frac{1 + 3\cos\gamma_i\cos\gamma_j\cos\gamma_k}{(r_{ij} r_{jk} r_{ki})^3}

    with one strength :math:`\nu` per species. The rule works on squared distances, so no angle and no square root of
    a difference is ever formed.

    Parameters
    ----------
    pos : Tensor (N, 3)
    strength : Tensor (S,)
        One entry per species; any real number, zero included.
    species : LongTensor (N,)
    triplets : LongTensor (T, 3)
        Indices of three different atoms.
    molecule : LongTensor (T,)
        Molecule each triplet belongs to.
    n_molecules : int

    Returns
    -------
    Tensor (n_molecules,)
    """

    @staticmethod
    def _shape_terms(pos, triplets):
        i, j, k = triplets.unbind(1)
        dij, djk, dki = pos[i] - pos[j], pos[j] - pos[k], pos[k] - pos[i]
        a, b, c = (dij**2).sum(-1), (djk**2).sum(-1), (dki**2).sum(-1)
        return (dij, djk, dki), (a, b, c), (b + c - a, a + c - b, a + b - c)

    @staticmethod
    def forward(ctx, pos, strength, species, triplets, molecule, n_molecules):
        _, (a, b, c), (p, q, r) = TripleDipole._shape_terms(pos, triplets)
        v = a * b * c
        shape = v**-1.5 + 0.375 * p * q * r * v**-2.5
        nu = strength[species[triplets]].prod(1)
        ctx.save_for_backward(pos, strength, species, triplets, molecule)
        return pos.new_zeros(n_molecules).index_add(0, molecule, nu * shape)

    @staticmethod
    def backward(ctx, grad_out):
        pos, strength, species, triplets, molecule = ctx.saved_tensors
        (dij, djk, dki), (a, b, c), (p, q, r) = TripleDipole._shape_terms(pos, triplets)
        v = a * b * c
        v3, v5 = v**-1.5, 0.375 * v**-2.5
        pqr = p * q * r
        ni, nj, nk = strength[species[triplets]].unbind(1)
        up = grad_out[molecule]

        grad_pos = grad_strength = None
        if ctx.needs_input_grad[0]:
            w = up * ni * nj * nk
            radial = 1.5 * v3 + 2.5 * v5 * pqr
            ga = w * (v5 * (p * r + p * q - q * r) - radial / a)
            gb = w * (v5 * (q * r + p * q - p * r) - radial / b)
            gc = w * (v5 * (q * r + p * r - p * q) - radial / c)
            fij, fjk, fki = 2 * ga[:, None] * dij, 2 * gb[:, None] * djk, 2 * gc[:, None] * dki
            pieces = torch.stack([fij - fki, fjk - fij, fki - fjk], 1)
            grad_pos = torch.zeros_like(pos).index_add(
                0, triplets.reshape(-1), pieces.reshape(-1, 3)
            )
        if ctx.needs_input_grad[1]:
            w = up * (v3 + v5 * pqr)
            pieces = torch.stack([w * nj * nk, w * ni * nk, w * ni * nj], 1)
            grad_strength = torch.zeros_like(strength).index_add(
                0, species[triplets].reshape(-1), pieces.reshape(-1)
            )
        return grad_pos, grad_strength, None, None, None, None
