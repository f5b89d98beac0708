"""Differentiable pieces of a flow cytometry analysis.

The order of work on an acquired tube is the usual one: subtract the
background, undo the spectral spillover, bring the channels to a display scale,
gate, and summarise every gated population.  Events are always laid out as
``(..., events, channels)``.
"""

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

LN10 = 2.302585092994046


@dataclass(frozen=True)
class PanelSettings:
    """Settings shared by all the tubes of a panel."""

    base10: bool = False
    n_populations: int = 4
    softness: float = 0.5


def _t(m):
    return jnp.swapaxes(m, -1, -2)


def _reduce_to(x, shape):
    """Sum ``x`` down to ``shape``, undoing numpy broadcasting."""
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


# --------------------------------------------------------------------------
# spillover


@jax.custom_vjp
def compensate(events, spill, background):
    """Undo spectral spillover.

    Parameters
    ----------
    events : (..., N, C) array
        Raw detector readings.
    spill : (C, C) or (..., C, C) array
        Row ``i`` is the signature of fluorochrome ``i`` over the detectors.
        One matrix may serve every tube, or each tube may bring its own.
    background : (C,) array
        Autofluorescence, the same in all tubes.

    Returns
    -------
    (..., N, C) array
        Abundance of the fluorochromes, ``(events - background) @ inv(spill)``.
    """
    return _compensate_fwd(events, spill, background)[0]


def _compensate_fwd(events, spill, background):
    net = events - background
    tube_spill = jnp.broadcast_to(spill, events.shape[:-2] + spill.shape[-2:])
    abundance = _t(jnp.linalg.solve(_t(tube_spill), _t(net)))
    return abundance, (abundance, tube_spill, spill)


def _compensate_bwd(res, g):
    abundance, tube_spill, spill = res
    d_net = _t(jnp.linalg.solve(tube_spill, _t(g)))
    d_spill = -_t(abundance) @ d_net
    d_background = -d_net.sum(axis=tuple(range(d_net.ndim - 1)))
    return d_net, _reduce_to(d_spill, spill.shape), d_background


compensate.defvjp(_compensate_fwd, _compensate_bwd)


# --------------------------------------------------------------------------
# display scale


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def cofactor_scale(events, cofactor, base10=False):
    """Inverse hyperbolic sine scale with one cofactor per channel.

    ``events`` is (N, C), ``cofactor`` is (C,) and positive.  With ``base10``
    the axis counts decades instead of e-folds.
    """
    scaled = jnp.arcsinh(events / cofactor)
    return scaled / LN10 if base10 else scaled


def _cofactor_fwd(events, cofactor, base10):
    return cofactor_scale(events, cofactor, base10), (events, cofactor)


def _cofactor_bwd(base10, res, g):
    events, cofactor = res
    root = jnp.sqrt(events * events + cofactor * cofactor)
    d_events = g / root
    if base10:
        d_events = d_events / LN10
    d_cofactor = -jnp.sum(g * events / (cofactor * root), axis=0)
    return d_events, d_cofactor


cofactor_scale.defvjp(_cofactor_fwd, _cofactor_bwd)


# --------------------------------------------------------------------------
# gates


@jax.custom_vjp
def ellipsoid_membership(points, centres, precision_root, radius, softness):
    """Soft membership of events in several ellipsoidal gates.

    Parameters
    ----------
    points : (N, C)
    centres : (P, C)
    precision_root : (P, C, C)
        Matrices ``L`` with squared distance ``|L (x - c)|^2``; any square
        matrix is accepted.
    radius : (P,)
    softness : scalar
        Width of the edge of the gate in units of squared distance.

    Returns
    -------
    (N, P) memberships in (0, 1).
    """
    return _membership_fwd(points, centres, precision_root, radius, softness)[0]


def _membership_fwd(points, centres, precision_root, radius, softness):
    offset = points[:, None, :] - centres
    white = jnp.einsum("pij,npj->npi", precision_root, offset)
    inside = (radius**2 - jnp.sum(white * white, -1)) / softness
    member = jax.nn.sigmoid(inside)
    return member, (offset, white, inside, member, precision_root, radius, softness)


def _membership_bwd(res, g):
    offset, white, inside, member, root, radius, softness = res
    d_inside = g * member * (1 - member)
    d_margin = d_inside / softness
    d_white = -2 * d_margin[..., None] * white
    d_offset = jnp.einsum("npi,pij->npj", d_white, root)
    d_root = jnp.einsum("npi,npj->pij", d_white, offset)
    d_radius = 2 * radius * d_margin.sum(0)
    d_softness = -jnp.sum(d_inside * inside) / softness
    return d_offset.sum(1), -d_offset.sum(0), d_root, d_radius, d_softness


ellipsoid_membership.defvjp(_membership_fwd, _membership_bwd)


# --------------------------------------------------------------------------
# summary of the populations


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def population_gmfi(intensity, weights, labels, n_populations):
    """Weighted geometric mean intensity of every population.

    intensity: (N,) positive; weights: (N,) non-negative; labels: (N,) integers,
    -1 for events that no gate has claimed.  Populations without events give 0.
    """
    return _gmfi_fwd(intensity, weights, labels, n_populations)[0]


def _gmfi_fwd(intensity, weights, labels, n_populations):
    gated = labels >= 0
    slot = jnp.where(gated, labels, 0)
    w = jnp.where(gated, weights, 0)
    total = jnp.zeros(n_populations, w.dtype).at[slot].add(w)
    log_sum = jnp.zeros(n_populations, w.dtype).at[slot].add(w * jnp.log(intensity))
    safe = jnp.where(total > 0, total, 1)
    log_mean = log_sum / safe
    mfi = jnp.where(total > 0, jnp.exp(log_mean), 0)
    return mfi, (intensity, w, slot, safe, log_mean, mfi)


def _gmfi_bwd(n_populations, res, g):
    intensity, w, slot, safe, log_mean, mfi = res
    per_event = (g * mfi / safe)[slot]
    d_intensity = per_event * w / intensity
    d_weights = per_event * (jnp.log(intensity) - log_mean[slot])
    return d_intensity, d_weights, None


population_gmfi.defvjp(_gmfi_fwd, _gmfi_bwd)


def analyse_tube(params, raw, labels, settings=PanelSettings()):
    """Run a tube through the whole chain; ``params`` is a dict of arrays."""
    events = compensate(raw, params["spill"], params["background"])
    scaled = cofactor_scale(events, params["cofactor"], settings.base10)
    member = ellipsoid_membership(
        scaled, params["centres"], params["roots"], params["radius"], settings.softness
    )
    best = jnp.max(member, axis=1)
    return population_gmfi(jnp.exp(scaled[:, 0]), best, labels, settings.n_populations)
