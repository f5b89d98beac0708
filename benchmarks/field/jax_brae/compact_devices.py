"""Compact device and link models for gradient-based sizing."""
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

BOLTZMANN_OVER_Q = 8.617333e-5


@dataclass(frozen=True)
class MosCard:
    vt0: float = 0.45
    slope: float = 1.3
    temperature: float = 300.0
    polarity: int = 1  # +1 n-channel, -1 p-channel

    @property
    def ut(self):
        return BOLTZMANN_OVER_Q * self.temperature


@partial(jax.custom_jvp, nondiff_argnums=(0,))
def ekv_drain_current(card, vg, vd, vs, beta):
    """Long-channel EKV drain current, weak to strong inversion in one expression.

    ``I = 2 n beta Ut^2 (F((vp - vs)/2Ut) - F((vp - vd)/2Ut))`` with
    ``F(x) = log(1 + exp(x))^2`` and pinch-off voltage ``vp = (vg - vt0)/n``.

    Args:
      card: frozen ``MosCard``; for a p-channel card (``polarity=-1``) all terminal
        voltages and the current change sign, ``vt0`` stays positive.
      vg, vd, vs: gate, drain and source voltages against bulk, broadcastable.
      beta: transconductance factor in A/V^2 (includes W/L), broadcastable.

    Returns:
      Current into the drain, in amperes; negative for reversed ``vd - vs``.
    """
    return _ekv(card, vg, vd, vs, beta)[0]


def _ekv(card, vg, vd, vs, beta):
    p, n, ut = card.polarity, card.slope, card.ut
    vp = (p * vg - card.vt0) / n
    xf, xr = (vp - p * vs) / (2 * ut), (vp - p * vd) / (2 * ut)
    lf, lr = jax.nn.softplus(xf), jax.nn.softplus(xr)
    unit = p * 2 * n * ut**2 * (lf - lr) * (lf + lr)
    return beta * unit, unit, (xf, xr, lf, lr)


@ekv_drain_current.defjvp
def _ekv_jvp(card, primals, tangents):
    vg, vd, vs, beta = primals
    dvg, dvd, dvs, dbeta = tangents
    current, unit, (xf, xr, lf, lr) = _ekv(card, vg, vd, vs, beta)
    # the polarity enters twice, once on the voltage and once on the current
    gms = 2 * card.slope * beta * card.ut * lf * jax.nn.sigmoid(xf)
    gmd = 2 * card.slope * beta * card.ut * lr * jax.nn.sigmoid(xr)
    gm = (gms - gmd) / card.slope
    return current, gm * dvg + gmd * dvd - gms * dvs + unit * dbeta


def _forward_constants(grading, fc):
    f1 = (1.0 - (1.0 - fc) ** (1.0 - grading)) / (1.0 - grading)
    f2 = (1.0 - fc) ** (1.0 + grading)
    f3 = 1.0 - fc * (1.0 + grading)
    return f1, f2, f3


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def junction_charge(v, cj0, vj, grading=0.5, fc=0.5):
    """SPICE depletion charge of D junctions: v [..., D], cj0 and vj [D]; linear C(v) above fc*vj."""
    f1, f2, f3 = _forward_constants(grading, fc)
    knee = fc * vj
    x = 1.0 - jnp.minimum(v, knee) / vj
    low = vj * (1.0 - x ** (1.0 - grading)) / (1.0 - grading)
    high = vj * f1 + (f3 * (v - knee) + grading / (2.0 * vj) * (v**2 - knee**2)) / f2
    return cj0 * jnp.where(v < knee, low, high)


def _junction_fwd(v, cj0, vj, grading, fc):
    q = junction_charge(v, cj0, vj, grading, fc)
    return q, (v, cj0, vj, q)


def _junction_bwd(grading, fc, res, ct):
    v, cj0, vj, q = res
    _, f2, f3 = _forward_constants(grading, fc)
    x = 1.0 - jnp.minimum(v, fc * vj) / vj
    c_low = cj0 * x**-grading
    c_high = cj0 / f2 * (f3 + grading * v / vj)
    lead = tuple(range(v.ndim - 1))
    d_v = ct * jnp.where(v < fc * vj, c_low, c_high)
    d_cj0 = jnp.sum(ct * q / cj0, axis=lead)
    # q / cj0 is homogeneous of degree one in (v, vj)
    d_vj = jnp.sum(ct * (q - v * c_low) / vj, axis=lead)
    return d_v, d_cj0, d_vj


junction_charge.defvjp(_junction_fwd, _junction_bwd)


def _db(x):
    return 10.0 ** (0.1 * x)


def _chain(gain_db, nf_db, fitted, axis):
    fitted = jnp.broadcast_to(fitted, gain_db.shape)
    gain = jnp.where(fitted, gain_db, 0.0)
    before = jnp.cumsum(gain, axis=axis) - gain
    excess = jnp.where(fitted, _db(nf_db) - 1.0, 0.0) * _db(-before)
    return excess, before, 1.0 + excess.sum(axis=axis, keepdims=True)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def cascade_noise_figure(gain_db, nf_db, fitted, axis=-1):
    if gain_db.shape != nf_db.shape:
        raise ValueError(f"stage tables differ: {gain_db.shape} and {nf_db.shape}")
    factor = _chain(gain_db, nf_db, fitted, axis)[2]
    return 10.0 * jnp.log10(jnp.squeeze(factor, axis))


def _cascade_fwd(gain_db, nf_db, fitted, axis):
    return cascade_noise_figure(gain_db, nf_db, fitted, axis), (gain_db, nf_db, fitted)


def _cascade_bwd(axis, res, ct):
    gain_db, nf_db, fitted = res
    excess, before, factor = _chain(gain_db, nf_db, fitted, axis)
    g = jnp.expand_dims(ct, axis) / factor
    # noise added behind each stage, which its gain pushes down
    behind = jnp.flip(jnp.cumsum(jnp.flip(excess, axis), axis=axis), axis) - excess
    d_gain = jnp.where(fitted, -g * behind, 0.0)
    d_nf = jnp.where(fitted, g * _db(nf_db - before), 0.0)
    return d_gain, d_nf, None


cascade_noise_figure.defvjp(_cascade_fwd, _cascade_bwd)


def receiver_sensitivity(gain_db, nf_db, bandwidth_hz, snr_db=10.0):
    fitted = jnp.ones(gain_db.shape, bool)
    return -174.0 + 10.0 * jnp.log10(bandwidth_hz) + cascade_noise_figure(gain_db, nf_db, fitted) + snr_db
