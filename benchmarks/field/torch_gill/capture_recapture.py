"""Negative log-likelihoods of wildlife surveys: marked animals and distance sampling."""

import math
from enum import Enum

import torch
import torch.nn.functional as F
from torch.autograd import Function


class Transect(Enum):
    LINE = "line"
    POINT = "point"


def _reduce(per_unit, how):
    if how == "sum":
        return per_unit.sum()
    if how == "mean":
        return per_unit.mean()
    return per_unit


def _spread(grad, shape, how):
    """Cotangent of every unit, from that of the reduced value."""
    if how == "none":
        return grad
    grad = grad.expand(shape)
    return grad / shape[0] if how == "mean" else grad


class JollySeberNLL(Function):
    """Cormack-Jolly-Seber likelihood of first recaptures in m-array form.

    Args:
        phi: survival over interval k, (species, intervals) or (1, intervals), in (0, 1)
        p: capture probability at the occasion that ends interval k, same shapes
        recaptured: integer counts (species, intervals, intervals); entry [s, i, j] was released at i and first seen again at
            the end of interval j >= i. Entries below the diagonal are not read.
        lost: integer counts (species, intervals), released at i and never seen again
        reduction: over species: "sum", "mean" or "none"
    """

    @staticmethod
    def forward(phi, p, recaptured, lost, reduction):
        m = torch.triu(recaptured.to(phi.dtype))
        species, n = lost.shape
        phi, p = phi.expand(species, n), p.expand(species, n)
        chi = [torch.ones_like(phi[:, 0])]
        for k in reversed(range(n)):
            chi.insert(0, 1 - phi[:, k] + phi[:, k] * (1 - p[:, k]) * chi[0])
        chi = torch.stack(chi, 1)
        alive, seen, missed = JollySeberNLL.exposures(m)
        nll = -(alive * phi.log() + seen * p.log() + missed * torch.log1p(-p)).sum(1)
        nll = nll - (lost * chi[:, :-1].log()).sum(1)
        return _reduce(nll, reduction)

    @staticmethod
    def exposures(m):
        """How often an interval was survived, an occasion hit and an occasion missed by animals seen again."""
        seen = m.sum(1)
        released = m.sum(2)
        alive = released.cumsum(1) - seen.cumsum(1) + seen
        return alive, seen, alive - seen

    @staticmethod
    def setup_context(ctx, inputs, output):
        phi, p, recaptured, lost, ctx.reduction = inputs
        ctx.save_for_backward(phi, p, recaptured, lost)

    @staticmethod
    def backward(ctx, grad):
        phi0, p0, recaptured, lost = ctx.saved_tensors
        species, n = lost.shape
        phi, p = phi0.expand(species, n), p0.expand(species, n)
        alive, seen, missed = JollySeberNLL.exposures(torch.triu(recaptured.to(phi.dtype)))
        chi = [torch.ones_like(phi[:, 0])]
        for k in reversed(range(n)):
            chi.insert(0, 1 - phi[:, k] + phi[:, k] * (1 - p[:, k]) * chi[0])

        g_phi = -alive / phi
        g_p = -seen / p + missed / (1 - p)
        carried = torch.zeros_like(chi[0])
        for k in range(n):
            carried = carried - lost[:, k] / chi[k]
            g_phi[:, k] += carried * ((1 - p[:, k]) * chi[k + 1] - 1)
            g_p[:, k] -= carried * phi[:, k] * chi[k + 1]
            carried = carried * phi[:, k] * (1 - p[:, k])
        unit = _spread(grad, (species,), ctx.reduction)[:, None]
        return (
            (unit * g_phi).sum_to_size(phi0.shape),
            (unit * g_p).sum_to_size(p0.shape),
            None,
            None,
            None,
        )


class HalfNormalDistanceNLL(Function):
    """Half-normal detection function, right-truncated at ``width``.

    distance, log_scale and group (the group size that weighs a sighting) are (sightings,); log_scale may also be (1,).
    On a line transect the density of a distance x in [0, width] is proportional to g(x), at a point count to x g(x),
    with g(x) = exp(-x^2 / (2 scale^2)).
    """

    @staticmethod
    def _log_mean(scale, width, kind):
        if kind is Transect.LINE:
            return torch.log(
                scale * math.sqrt(math.pi / 2) * torch.erf(width / (scale * math.sqrt(2)))
            )
        return torch.log(-(scale**2) * torch.expm1(-(width**2) / (2 * scale**2)))

    @staticmethod
    def forward(ctx, distance, log_scale, group, width, kind=Transect.LINE):
        scale = log_scale.exp()
        nll = distance**2 / (2 * scale**2) + HalfNormalDistanceNLL._log_mean(scale, width, kind)
        if kind is Transect.POINT:
            nll = nll - distance.log()
        ctx.save_for_backward(distance, scale, group, nll)
        ctx.width, ctx.kind = width, kind
        return (group * nll).sum()

    @staticmethod
    def backward(ctx, grad):
        distance, scale, group, nll = ctx.saved_tensors
        w = ctx.width
        seen = group * grad
        g_distance = distance / scale**2
        if ctx.kind is Transect.LINE:
            mean = HalfNormalDistanceNLL._log_mean(scale, w, ctx.kind).exp()
            slope = 1 - w * torch.exp(-(w**2) / (2 * scale**2)) / mean
        else:
            g_distance = g_distance - 1 / distance
            slope = torch.full_like(scale, 2.0)
        g_log_scale = seen * (slope - (distance / scale) ** 2)
        return seen * g_distance, g_log_scale.sum_to_size(scale.shape), nll * grad, None, None


class BehaviouralCaptureNLL(Function):
    """Closed-population capture histories with a trap response.

    logit_p       (occasions,) or (animals, occasions), logit of the capture probability of an animal not yet caught
    response      (1,) or (animals, 1), added to the logit once the animal has been caught
    history       (animals, occasions), bool
    operated      (animals, occasions), bool; occasions on which the animal's trap was shut do not count
    reduction     over animals: "sum", "mean" or "none"
    """

    @staticmethod
    def forward(ctx, logit_p, response, history, operated, reduction="sum"):
        caught = history & operated
        earlier = caught.long().cumsum(1) - caught.long() > 0
        z = logit_p + response * earlier
        terms = torch.where(operated, F.softplus(z) - z * caught, torch.zeros_like(z))
        ctx.save_for_backward(z, caught, earlier, operated)
        ctx.shapes = logit_p.shape, response.shape
        ctx.reduction = reduction
        return _reduce(terms.sum(1), reduction)

    @staticmethod
    def backward(ctx, grad):
        z, caught, earlier, operated = ctx.saved_tensors
        p_shape, r_shape = ctx.shapes
        g_z = (torch.sigmoid(z) - caught.to(z.dtype)) * operated
        g_z = g_z * _spread(grad, (z.shape[0],), ctx.reduction)[:, None]
        g_response = (g_z * earlier).sum(1, keepdim=True)
        if len(r_shape) == 1:
            g_response = g_response.sum(0)
        return g_z.sum_to_size(p_shape), g_response, None, None, None
