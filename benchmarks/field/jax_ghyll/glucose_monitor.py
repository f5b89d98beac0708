"""Differentiable summaries of continuous glucose monitor (CGM) traces.

The traces come in five-minute slots, one row per wearer, and are padded: the
companion ``valid`` array says which slots hold a reading.
"""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

MGDL_PER_MMOL = 18.018
# Kovatchev's symmetrising transform of the blood glucose scale (mg/dL)
_GAIN, _POWER, _SHIFT = 1.509, 1.084, 5.381


@dataclass(frozen=True)
class RangeTargets:
    """Consensus targets, mg/dL."""
    low: float = 70.0
    high: float = 180.0
    width: float = 8.0


def _unbroadcast(x, shape):
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=axes, keepdims=True) if axes else x


def _side_mask(f, side):
    if side == "low":
        return f < 0
    if side == "high":
        return f > 0
    return jnp.ones_like(f, dtype=bool)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def glycaemic_risk(bg, valid, side="both", units="mg/dL"):
    """Blood glucose risk index (LBGI, HBGI or their sum) of each wearer.

    Args:
      bg: readings, ``(wearers, slots)``, within 20 and 600 mg/dL.
      valid: boolean, same shape; a wearer without readings scores zero.
      side: ``"low"``, ``"high"`` or ``"both"``.
      units: ``"mg/dL"`` or ``"mmol/L"``.

    Returns:
      ``(wearers,)`` mean risk over the valid slots.
    """
    return _risk_fwd(bg, valid, side, units)[0]


def _risk_fwd(bg, valid, side, units):
    factor = MGDL_PER_MMOL if units == "mmol/L" else 1.0
    mg = jnp.where(valid, bg * factor, 112.5)
    f = _GAIN * (jnp.log(mg) ** _POWER - _SHIFT)
    keep = valid & _side_mask(f, side)
    n = jnp.maximum(valid.sum(-1), 1)
    out = jnp.where(keep, 10.0 * f * f, 0.0).sum(-1) / n
    return out, (mg, f, keep, n)


def _risk_bwd(side, units, res, g):
    mg, f, keep, n = res
    factor = MGDL_PER_MMOL if units == "mmol/L" else 1.0
    slope = _GAIN * _POWER * jnp.log(mg) ** (_POWER - 1.0) / mg
    per_slot = jnp.where(keep, 20.0 * f * slope, 0.0) * factor
    return per_slot * (g / n)[:, None], None


glycaemic_risk.defvjp(_risk_fwd, _risk_bwd)


@jax.custom_vjp
def soft_time_in_range(bg, valid, low, high, width):
    """Smooth share of the valid readings between two thresholds.

    Args:
      bg: ``(wearers, slots)`` readings.
      valid: boolean ``(wearers, slots)``, at least one per wearer.
      low, high, width: thresholds and softness of the edges, each a scalar or
        ``(wearers, 1)``.
    """
    return _tir_fwd(bg, valid, low, high, width)[0]


def _tir_fwd(bg, valid, low, high, width):
    low, high, width = map(jnp.asarray, (low, high, width))
    above = jax.nn.sigmoid((bg - low) / width)
    below = jax.nn.sigmoid((high - bg) / width)
    inside = jnp.where(valid, above * below, 0.0)
    out = inside.sum(-1) / valid.sum(-1)
    return out, (bg, valid, low, high, width, above, below)


def _tir_bwd(res, g):
    bg, valid, low, high, width, above, below = res
    gs = jnp.where(valid, g[:, None], 0.0) / bg.shape[-1]
    rise = gs * above * below * (1.0 - above) / width      # through the lower edge
    fall = gs * above * below * (1.0 - below) / width      # through the upper edge
    d_bg = rise - fall
    d_width = -(rise * (bg - low) + fall * (high - bg)) / width
    return (d_bg, None, _unbroadcast(-rise, low.shape),
            _unbroadcast(fall, high.shape), _unbroadcast(d_width, width.shape))


soft_time_in_range.defvjp(_tir_fwd, _tir_bwd)


def _remaining(u):
    """Share of a dose still active after the fraction ``u`` of its action time."""
    u = jnp.clip(u, 0.0, 1.0)
    return (1.0 - u) ** 2 * (1.0 + 2.0 * u)


def make_insulin_on_board(dt=5.0, max_bolus=None):
    """Build the insulin-on-board curve for slots of ``dt`` minutes.

    ``max_bolus`` is the largest dose the pump delivers in a slot; what is asked
    for beyond it is dropped.
    """

    def lags(slots):
        t = jnp.arange(slots)
        return t[:, None] - t[None, :]

    def deliver(bolus):
        return bolus if max_bolus is None else jnp.minimum(bolus, max_bolus)

    @jax.custom_vjp
    def insulin_on_board(bolus, dia):
        """Active units per slot from boluses ``(wearers, slots)``; ``dia`` ``(wearers,)`` is the action time in min."""
        return forward(bolus, dia)[0]

    def forward(bolus, dia):
        lag = lags(bolus.shape[-1])
        u = lag * dt / dia[:, None, None]
        weight = jnp.where(lag >= 0, _remaining(u), 0.0)
        iob = jnp.einsum("wts,ws->wt", weight, deliver(bolus))
        return iob, (bolus, dia, weight)

    def backward(res, g):
        bolus, dia, weight = res
        lag = lags(bolus.shape[-1])
        u = jnp.clip(lag * dt / dia[:, None, None], 0.0, 1.0)
        d_bolus = jnp.einsum("wts,wt->ws", weight, g)
        if max_bolus is not None:
            d_bolus = jnp.where(bolus < max_bolus, d_bolus, 0.0)
        slope = 6.0 * u * u * (1.0 - u) / dia[:, None, None]
        d_dia = jnp.einsum("wts,ws,wt->w", slope, bolus, g)
        return d_bolus, d_dia

    insulin_on_board.defvjp(forward, backward)
    return insulin_on_board


def daily_summary(bg, valid, targets=RangeTargets()):
    """Dictionary of the usual scores of one day."""
    return {
        "lbgi": glycaemic_risk(bg, valid, "low", "mg/dL"),
        "hbgi": glycaemic_risk(bg, valid, "high", "mg/dL"),
        "tir": soft_time_in_range(bg, valid, targets.low, targets.high, targets.width),
    }
