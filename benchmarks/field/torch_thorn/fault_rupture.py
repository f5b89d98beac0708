"""Building blocks of the fault-interaction inversion (stress transfer, seismicity, locking)."""

import math

import torch
from torch.autograd import Function

LOG10E = math.log10(math.e)


def unbroadcast(t, shape):
    extra = t.dim() - len(shape)
    if extra:
        t = t.sum(tuple(range(extra)))
    keep = [d for d, size in enumerate(shape) if size == 1 and t.shape[d] != 1]
    return t.sum(keep, keepdim=True) if keep else t


def fault_frame(strike, dip, rake):
    """Unit normal and slip vector (north, east, down), angles in radians; stacked on the last axis."""
    ss, cs = strike.sin(), strike.cos()
    sd, cd = dip.sin(), dip.cos()
    sr, cr = rake.sin(), rake.cos()
    normal = torch.stack([-sd * ss, sd * cs, -cd], -1)
    slip = torch.stack([cr * cs + sr * cd * ss, cr * ss - sr * cd * cs, -sr * sd], -1)
    return normal, slip


class CoulombTransfer(Function):
    """Coulomb failure stress change on receiver faults,  dCFS = n.S.s + mu * n.S.n.

    stress (..., 3, 3) in (north, east, down), tension positive; strike, dip, rake and the effective friction mu
    broadcast against its leading dimensions.
    """

    @staticmethod
    def forward(ctx, stress, strike, dip, rake, mu):
        lead = torch.broadcast_shapes(
            stress.shape[:-2], strike.shape, dip.shape, rake.shape, mu.shape
        )
        angles = [a.expand(lead) for a in (strike, dip, rake)]
        n, s = fault_frame(*angles)
        full = stress.expand(*lead, 3, 3)
        left = torch.einsum("...i,...ij->...j", n, full)
        right = torch.einsum("...ij,...j->...i", full, s + mu.unsqueeze(-1) * n)
        sigma_n = (left * n).sum(-1)
        ctx.shapes = [stress.shape, strike.shape, dip.shape, rake.shape, mu.shape]
        ctx.save_for_backward(*angles, mu, n, s, left, right, sigma_n)
        return (left * s).sum(-1) + mu * sigma_n

    @staticmethod
    def backward(ctx, g):
        strike, dip, rake, mu, n, s, left, right, sigma_n = ctx.saved_tensors
        m = mu.unsqueeze(-1)
        g_stress = g[..., None, None] * n.unsqueeze(-1) * (s + m * n).unsqueeze(-2)
        gn, gs = right + m * left, left
        ss, cs, sd, cd = strike.sin(), strike.cos(), dip.sin(), dip.cos()
        sr, cr = rake.sin(), rake.cos()
        zero = torch.zeros_like(ss)
        dn_strike = torch.stack([-sd * cs, -sd * ss, zero], -1)
        dn_dip = torch.stack([-cd * ss, cd * cs, sd], -1)
        ds_strike = torch.stack([-cr * ss + sr * cd * cs, cr * cs + sr * cd * ss, zero], -1)
        ds_dip = torch.stack([-sr * sd * ss, sr * sd * cs, -sr * cd], -1)
        ds_rake = torch.stack([-sr * cs + cr * cd * ss, -sr * ss - cr * cd * cs, -cr * sd], -1)
        grads = [
            g_stress,
            g * (gn * dn_strike + gs * ds_strike).sum(-1),
            g * (gn * dn_dip + gs * ds_dip).sum(-1),
            g * (gs * ds_rake).sum(-1),
            g * sigma_n,
        ]
        return tuple(unbroadcast(t, shape) for t, shape in zip(grads, ctx.shapes))


class AkiUtsuSlope(Function):
    """b-values of the regions of a catalogue by Aki's estimator, b = log10(e) / (mean(M) - Mc).

    mags (events,), region (events,) long, completeness (regions,).  Only events at or above the completeness of
    their region enter, and every region needs one above it.
    """

    @staticmethod
    def forward(ctx, mags, region, completeness):
        regions = completeness.shape[0]
        complete = mags >= completeness[region]
        used = complete.to(mags.dtype)
        count = torch.zeros(regions, dtype=mags.dtype).index_add_(0, region, used)
        total = torch.zeros(regions, dtype=mags.dtype).index_add_(0, region, mags * used)
        b = LOG10E / (total / count - completeness)
        ctx.save_for_backward(b, region, complete)
        return b

    @staticmethod
    def backward(ctx, g):
        b, region, complete = ctx.saved_tensors
        per_region = g * b.square() / LOG10E
        n = torch.bincount(region, minlength=b.shape[0]).to(b.dtype)
        g_mags = torch.where(complete, -(per_region / n)[region], torch.zeros_like(b[region]))
        return g_mags, None, per_region


class LockedFaultVelocity(Function):
    @staticmethod
    def forward(ctx, x, trace, rate, depth):
        """x (S,) stations; trace, rate, depth (F,) faults -> (S,) fault-parallel velocity"""
        u = x[:, None] - trace
        ctx.save_for_backward(u, rate, depth)
        return (torch.atan2(u, depth) @ rate) / math.pi

    @staticmethod
    def backward(ctx, g):
        u, rate, depth = ctx.saved_tensors
        w = g[:, None] / math.pi
        q = u * u + depth * depth
        g_u = w * rate * depth / q
        return (
            g_u.sum(1),
            -g_u.sum(0),
            (w * torch.atan2(u, depth)).sum(0),
            -(w * rate * u / q).sum(0),
        )


def locking_misfit(x, trace, rate, depth, observed, sigma):
    return ((LockedFaultVelocity.apply(x, trace, rate, depth) - observed) / sigma).square().sum()
