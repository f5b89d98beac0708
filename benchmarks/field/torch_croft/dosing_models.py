"""Population pharmacokinetics: drip infusions and assay likelihood."""
import math

import torch
from torch.autograd import Function
from torch.autograd.function import once_differentiable

HALF_LOG_2PI = 0.5 * math.log(2 * math.pi)


class InfusionSuperposition(Function):
    """One-compartment concentration after several constant-rate infusions.

    times (subjects, samples); start, length, rate, given (subjects, doses), where
    `given` marks the real doses of the padded table; clearance, volume (subjects,).
    """

    @staticmethod
    def forward(ctx, times, start, length, rate, given, clearance, volume):
        cl, v = clearance[:, None, None], volume[:, None, None]
        k = cl / v
        tau = times[:, :, None] - start[:, None, :]
        span = length[:, None, :]
        after = tau > span
        during = (tau > 0) & ~after
        run = torch.where(after, span, tau.clamp(min=0))
        wash = torch.where(after, tau - span, torch.zeros_like(tau))
        live = (during | after) & given[:, None, :]
        unit = torch.where(live, -torch.expm1(-k * run) * torch.exp(-k * wash) / cl, torch.zeros_like(tau))
        conc = (unit * rate[:, None, :]).sum(-1)
        ctx.save_for_backward(run, wash, unit, rate, live, after, clearance, volume)
        return conc

    @staticmethod
    @once_differentiable
    def backward(ctx, g):
        run, wash, unit, rate, live, after, clearance, volume = ctx.saved_tensors
        cl, v = clearance[:, None, None], volume[:, None, None]
        k = cl / v
        g = torch.where(live, g[:, :, None], torch.zeros_like(run))
        gr = g * rate[:, None, :]
        tail = torch.exp(-k * (run + wash))
        d_run = gr * tail / v
        d_wash = -gr * k * unit
        d_k = gr * (run * tail / cl - wash * unit)
        d_tau = torch.where(after, d_wash, d_run)
        d_span = torch.where(after, d_run - d_wash, torch.zeros_like(d_run))
        g_cl = (d_k / v - gr * unit / cl).sum((1, 2))
        g_v = -(d_k * k / v).sum((1, 2))
        return d_tau.sum(2), -d_tau.sum(1), d_span.sum(1), (g * unit).sum(1), None, g_cl, g_v


def residual_sd(pred, additive, proportional):
    return torch.sqrt(additive**2 + (proportional * pred) ** 2)


class CensoredAssayNLL(Function):
    """Negative log likelihood of assays with combined error and values below quantification (M3).

    Parameters
    ----------
    pred, obs : (subjects, samples)
        Predicted and measured concentration; `obs` is not read where `below` holds.
    additive, proportional : () tensors
        Error model, sd^2 = additive^2 + (proportional * pred)^2.
    below : (subjects, samples) bool
        Sample reported as below `lloq`; contributes log Phi((lloq - pred) / sd).
    lloq : float
    reduction : "sum" or "mean" over all samples
    """

    @staticmethod
    def forward(ctx, pred, obs, additive, proportional, below, lloq, reduction="sum"):
        sd = residual_sd(pred, additive, proportional)
        z = (torch.where(below, torch.full_like(pred, lloq), obs) - pred) / sd
        nll = torch.where(below, -torch.special.log_ndtr(z), 0.5 * z * z + sd.log() + HALF_LOG_2PI)
        ctx.save_for_backward(pred, additive, proportional, below, sd, z)
        ctx.scale = 1.0 if reduction == "sum" else 1.0 / pred.numel()
        return nll.sum() * ctx.scale

    @staticmethod
    def backward(ctx, g):
        pred, additive, proportional, below, sd, z = ctx.saved_tensors
        g = g * ctx.scale
        # inverse Mills ratio, in logs for the far tail
        mills = torch.exp(-0.5 * z * z - HALF_LOG_2PI - torch.special.log_ndtr(z))
        d_z = torch.where(below, -mills, z)
        d_sd = torch.where(below, mills * z, 1 - z * z) / sd
        d_sd_pred = torch.where(below, torch.zeros_like(z), 1 - z * z) / sd
        g_pred = g * (d_sd_pred * proportional**2 * pred / sd - d_z / sd)
        g_obs = g * torch.where(below, torch.zeros_like(z), z / sd)
        g_add = g * (d_sd * additive / sd).sum()
        g_prop = g * (d_sd * proportional * pred.square() / sd).sum()
        return g_pred, g_obs, g_add, g_prop, None, None, None


def subject_objective(theta, table, lloq, eps=1e-6):
    """-2 log L of a table (dict of tensors) at theta (dict with cl, v, add, prop)."""
    pred = InfusionSuperposition.apply(
        table["times"], table["start"], table["length"], table["rate"], table["given"], theta["cl"], theta["v"]
    )
    return 2 * CensoredAssayNLL.apply(
        pred + eps, table["dv"], theta["add"], theta["prop"], table["bql"], lloq, "sum"
    )
