"""Forward models for lake sediment cores: depth scales, mixing by burrowers, species transfer functions."""
import functools

import torch
import torch.nn.functional as F
from torch.autograd import Function


def burial_depth(solid, phi0, length, steps=60):
    """Depth under which `solid` metres of grain lie, porosity phi0 * exp(-z / length)."""
    z = solid / (1 - phi0)
    for _ in range(steps):
        e = torch.exp(-z / length)
        z = z - (z - phi0 * length * (1 - e) - solid) / (1 - phi0 * e)
    return z


class CompactedDepth(Function):
    """Depth of the layer bases of a compacting core.

    ``solid`` holds grain thickness (m, no pores) of the layers from the sediment surface
    downwards along ``dim``; ``phi0`` in (0, 1) and ``length`` > 0 broadcast against it
    (per core or one for all).  Newton's method in forward, implicit function theorem in backward.
    """

    @staticmethod
    def forward(ctx, solid, phi0, length, dim=-1):
        z = burial_depth(solid.cumsum(dim), phi0, length)
        ctx.save_for_backward(z, phi0, length)
        ctx.dim = dim
        return z

    @staticmethod
    def backward(ctx, grad):
        z, phi0, length = ctx.saved_tensors
        u = z / length
        e = torch.exp(-u)
        lam = grad / (1 - phi0 * e)
        g_phi0 = lam * length * (-torch.expm1(-u))
        g_length = lam * phi0 * (-torch.expm1(-u) - u * e)
        g_solid = lam.flip(-1).cumsum(ctx.dim).flip(-1)
        return g_solid, g_phi0.sum_to_size(phi0.shape), g_length.sum_to_size(length.shape), None


class BurrowMixing(Function):
    """Tracer left in a core after mixing in a surface layer.

    Arguments
    ---------
    flux : (B, T)
        Tracer concentration of fresh sediment, oldest first.
    thickness : (B, T) or (T,)
        Sediment laid down in the step (cm), not negative.
    mixed_depth : (B, 1) or (1,)
        Depth of the mixed layer (cm), positive.
    observed : (B, T) bool
        Steps with a measurement. A step without one adds no sediment; the layer stays as it is.

    The layer starts with the first step's flux if that is observed, otherwise empty (0).
    """

    @staticmethod
    def forward(ctx, flux, thickness, mixed_depth, observed):
        fresh = -torch.expm1(-thickness / mixed_depth)
        fresh = torch.where(observed, fresh, torch.zeros_like(flux))
        first = torch.where(observed[:, 0], flux[:, 0], torch.zeros_like(flux[:, 0]))
        level, rows = first, [first]
        for t in range(1, flux.shape[1]):
            level = torch.where(observed[:, t], level + fresh[:, t] * (flux[:, t] - level), level)
            rows.append(level)
        mixed = torch.stack(rows, 1)
        ctx.save_for_backward(flux, thickness, mixed_depth, observed, fresh, mixed)
        return mixed

    @staticmethod
    def backward(ctx, grad):
        flux, thickness, mixed_depth, observed, fresh, mixed = ctx.saved_tensors
        g_flux = torch.zeros_like(flux)
        g_fresh = torch.zeros_like(flux)
        carry = torch.zeros_like(flux[:, 0])
        for t in range(flux.shape[1] - 1, 0, -1):
            carry = carry + grad[:, t]
            g_flux[:, t] = carry * fresh[:, t]
            g_fresh[:, t] = carry * (flux[:, t] - mixed[:, t - 1])
            carry = carry * (1 - fresh[:, t])
        zero = torch.zeros_like(carry)
        g_flux[:, 0] = torch.where(observed[:, 0], carry + grad[:, 0], zero)
        g_ratio = torch.where(observed, g_fresh * torch.exp(-thickness / mixed_depth), torch.zeros_like(flux))
        g_thick = (g_ratio / mixed_depth).sum_to_size(thickness.shape)
        g_depth = (-g_ratio * thickness / mixed_depth**2).sum_to_size(mixed_depth.shape)
        return g_flux, g_thick, g_depth, None


class TaxonTransfer(Function):
    @staticmethod
    def forward(ctx, counts, optimum, tolerance, downweight):
        w = counts / tolerance**2 if downweight else counts
        mass = w.sum(-1, keepdim=True)
        env = (w * optimum).sum(-1, keepdim=True) / mass
        ctx.save_for_backward(counts, optimum, tolerance, w, mass, env)
        ctx.downweight = downweight
        return env.squeeze(-1)

    @staticmethod
    def backward(ctx, grad):
        counts, optimum, tolerance, w, mass, env = ctx.saved_tensors
        r = grad.unsqueeze(-1) / mass
        g_w = r * (optimum - env)
        g_opt = (r * w).sum_to_size(optimum.shape)
        if not ctx.downweight:
            return g_w, g_opt, None, None
        g_tol = (-2 * g_w * w / tolerance).sum_to_size(tolerance.shape)
        return g_w / tolerance**2, g_opt, g_tol, None


def transfer_function(downweight=True, transform=None, deshrink=(0.0, 1.0)):
    """Weighted averaging regression, with the usual classical deshrinking line."""
    intercept, slope = deshrink
    before = {"sqrt": torch.sqrt, "log": torch.log1p, None: lambda c: c}[transform]
    infer = functools.partial(_infer, before, downweight)
    return lambda counts, optimum, tolerance: (infer(counts, optimum, tolerance) - intercept) / slope


def _infer(before, downweight, counts, optimum, tolerance):
    return TaxonTransfer.apply(before(counts), optimum, F.softplus(tolerance) + 0.1, downweight)
