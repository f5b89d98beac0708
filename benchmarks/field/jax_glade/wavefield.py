"""Seismic trace processing."""
from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

if TYPE_CHECKING:
    from jaxtyping import Array, Float


def _trailing_sum(x, n):
    c = jnp.cumsum(x, -1)
    return c - jnp.pad(c, [(0, 0)] * (x.ndim - 1) + [(n, 0)])[..., : x.shape[-1]]


def _leading_sum(x, n):
    return jnp.flip(_trailing_sum(jnp.flip(x, -1), n), -1)


def make_sta_lta(short, long, water=1e-6):
    """STA/LTA characteristic function of a trace.

    Parameters
    ----------
    short, long : int
        Window lengths in samples. Both windows end at the current sample. At the beginning of the trace they hold only
        the samples that exist, and the mean is over these.
    water : float
        Added to the long-term average.

    Returns
    -------
    callable
        ``f(trace) -> ratio`` on arrays ``(..., samples)``.
    """

    def _mean(e, n):
        held = jnp.minimum(jnp.arange(1, e.shape[-1] + 1), n)
        return _trailing_sum(e, n) / held

    @jax.custom_gradient
    def sta_lta(trace):
        energy = trace**2
        sta, lta = _mean(energy, short), _mean(energy, long) + water
        ratio = sta / lta

        def vjp(g):
            g_sta = g / lta
            g_lta = -g_sta * ratio
            d_energy = _leading_sum(g_sta, short) / short + _leading_sum(g_lta, long) / long
            return (2.0 * trace * d_energy,)

        return ratio, vjp

    return sta_lta


def make_q_filter(dt: float, f_ref: float = 1.0):
    """Constant-Q attenuation with the matching (Futterman) dispersion, as a filter on traces.

    ``attenuate(trace, tstar)``: ``trace`` is ``(..., n)``, ``tstar`` (travel time over Q, seconds) a scalar or one value
    per trace, i.e. of shape ``trace.shape[:-1]``. Phase velocities are those at ``f_ref`` (Hz). Traces are zero padded to
    twice their length so that nothing wraps around.
    """

    def _exponent(n, dtype):
        f = jnp.fft.rfftfreq(2 * n, dt)
        logf = jnp.log(jnp.where(f > 0, f, f_ref) / f_ref)
        return (-jnp.pi * f + 2j * f * logf).astype(jnp.result_type(dtype, jnp.complex64))

    def _apply(x, response):
        n = x.shape[-1]
        return jnp.fft.irfft(jnp.fft.rfft(x, 2 * n) * response, 2 * n)[..., :n]

    @jax.custom_vjp
    def attenuate(trace: Float[Array, "*b n"], tstar: Float[Array, "*b"]) -> Float[Array, "*b n"]:
        s = _exponent(trace.shape[-1], trace.dtype)
        return _apply(trace, jnp.exp(s * jnp.asarray(tstar)[..., None]))

    def fwd(trace, tstar):
        return attenuate(trace, tstar), (trace, jnp.asarray(tstar))

    def bwd(res, g):
        trace, tstar = res
        s = _exponent(trace.shape[-1], trace.dtype)
        h = jnp.exp(s * tstar[..., None])
        d_trace = _apply(g, jnp.conj(h))
        d_tstar = jnp.sum(g * _apply(trace, s * h), -1)
        return d_trace, d_tstar if tstar.ndim else jnp.sum(d_tstar)

    attenuate.defvjp(fwd, bwd)
    return attenuate
