"""Frequency-domain waveform pieces for compact-binary parameter estimation.

All masses are in seconds (``G M / c**3``), frequencies in Hz, and strains are
one-sided complex spectra sampled on a common grid.
"""

from dataclasses import dataclass

import jax
import jax.numpy as jnp

MSUN_SECONDS = 4.925490947641267e-06
TWO_PI = 2.0 * jnp.pi


@dataclass(frozen=True)
class BandSettings:
    f_low: float = 20.0
    f_high: float = 512.0
    n_bins: int = 256

    @property
    def df(self):
        return (self.f_high - self.f_low) / (self.n_bins - 1)

    def grid(self):
        return jnp.linspace(self.f_low, self.f_high, self.n_bins)


def _sum_to(x, like):
    """Sum ``x`` down to the shape of ``like`` after numpy broadcasting."""
    shape = jnp.shape(like)
    extra = x.ndim - len(shape)
    x = x.sum(axis=tuple(range(extra)))
    keep = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return x.sum(axis=keep, keepdims=True) if keep else x


# --------------------------------------------------------------------------
# inner product


@jax.custom_vjp
def noise_weighted_overlap(template, data, psd, df):
    r"""Real part of the noise-weighted inner product.

    .. math:: 4\,\Delta f\,\mathrm{Re}\sum_k \bar h_k d_k / S_k

    Parameters
    ----------
    template : complex array, shape (..., F)
    data : complex array, shape (..., F)
        May lack the leading axes of `template` (one data stretch, many
        templates), and the other way round.
    psd : real array, shape (F,) or (..., F)
        One-sided power spectral density, positive.
    df : real scalar
        Bin width.

    Returns
    -------
    real array, shape (...)
    """
    return 4.0 * df * jnp.sum(jnp.real(jnp.conj(template) * data) / psd, axis=-1)


def _overlap_fwd(template, data, psd, df):
    return noise_weighted_overlap(template, data, psd, df), (template, data, psd, df)


def _overlap_bwd(res, g):
    template, data, psd, df = res
    w = 4.0 * df * g[..., None] / psd
    dens = jnp.real(jnp.conj(template) * data) / psd
    g_template = _sum_to(w * jnp.conj(data), template)
    g_data = _sum_to(w * jnp.conj(template), data)
    g_psd = _sum_to(-w * dens, psd)
    g_df = 4.0 * jnp.sum(g * dens.sum(axis=-1))
    return g_template, g_data, g_psd, g_df


noise_weighted_overlap.defvjp(_overlap_fwd, _overlap_bwd)


# --------------------------------------------------------------------------
# projection onto the network


@jax.custom_vjp
def detector_strain(source, freqs, gains, delays):
    """Strain seen by each detector of a network.

    Parameters
    ----------
    source : complex array, shape (F,)
        Geocentre polarisation-summed strain.
    freqs : array, shape (F,)
    gains : array, shape (D,)
        Antenna factors.
    delays : array, shape (D,)
        Arrival times with respect to the geocentre, seconds, either sign.

    Returns
    -------
    complex array, shape (D, F)
    """
    phase = jnp.exp(-1j * TWO_PI * freqs * delays[:, None])
    return gains[:, None] * source * phase


def _strain_fwd(source, freqs, gains, delays):
    phase = jnp.exp(-1j * TWO_PI * freqs * delays[:, None])
    shifted = source * phase
    return gains[:, None] * shifted, (phase, shifted, freqs, gains, delays)


def _strain_bwd(res, g):
    phase, shifted, freqs, gains, delays = res
    g_gains = jnp.sum(jnp.real(g * shifted), axis=1)
    slope = jnp.real(-1j * TWO_PI * g * gains[:, None] * shifted)
    g_delays = jnp.sum(slope * freqs, axis=1)
    g_freqs = jnp.sum(slope * delays[:, None], axis=0)
    # undo the time shift before stacking the detectors
    g_source = jnp.sum(gains[:, None] * g * jnp.conj(phase), axis=0)
    return g_source, g_freqs, g_gains, g_delays


detector_strain.defvjp(_strain_fwd, _strain_bwd)


# --------------------------------------------------------------------------
# phasing and tapers


@jax.custom_jvp
def pn_phase(chirp_mass, eta, freqs):
    """Stationary-phase inspiral phase up to the 1.5PN tail term.

    Parameters broadcast; typical use is ``(B, 1), (B, 1), (F,)``.
    """
    v = jnp.cbrt(jnp.pi * chirp_mass * eta**-0.6 * freqs)
    c2 = 3715.0 / 756.0 + 55.0 / 9.0 * eta
    return 3.0 / (128.0 * eta) * (v**-5 + c2 * v**-3 - 16.0 * jnp.pi * v**-2)


@pn_phase.defjvp
def _pn_phase_jvp(primals, tangents):
    chirp_mass, eta, freqs = primals
    d_mc, d_eta, d_f = tangents
    v = jnp.cbrt(jnp.pi * chirp_mass * eta**-0.6 * freqs)
    c2 = 3715.0 / 756.0 + 55.0 / 9.0 * eta
    amp = 3.0 / (128.0 * eta)
    psi = amp * (v**-5 + c2 * v**-3 - 16.0 * jnp.pi * v**-2)
    dlnv = (d_mc / chirp_mass - 0.6 * d_eta / eta + d_f / freqs) / 3.0
    by_v = amp * (32.0 * jnp.pi * v**-2 - 3.0 * c2 * v**-3 - 5.0 * v**-5)
    by_eta = amp * 55.0 / 9.0 * v**-3 - psi / eta
    return psi, by_v * dlnv + by_eta * d_eta


@jax.custom_jvp
def planck_ramp(t, start, stop):
    """C-infinity rise from 0 at `start` to 1 at `stop` (Planck taper).

    Zero before `start` and one after `stop`; `start` < `stop`.  The three
    arguments broadcast.
    """
    inside = (t > start) & (t < stop)
    span = stop - start
    mid = jnp.where(inside, t, 0.5 * (start + stop))
    w = jax.nn.sigmoid(-(span / (mid - start) + span / (mid - stop)))
    return jnp.where(inside, w, jnp.where(t >= stop, 1.0, 0.0))


@planck_ramp.defjvp
def _planck_ramp_jvp(primals, tangents):
    t, start, stop = primals
    dt, d_start, d_stop = tangents
    w = planck_ramp(t, start, stop)
    inside = (t > start) & (t < stop)
    span = stop - start
    mid = jnp.where(inside, t, 0.5 * (start + stop))
    near = span / (mid - start) ** 2
    far = span / (mid - stop) ** 2
    dz = near * (d_start - dt) + far * (d_stop - dt)
    return w, jnp.where(inside, -w * (1.0 - w) * dz, 0.0)


def log_likelihood(params, data, psd, gains, delays, band=BandSettings()):
    """Gaussian log-likelihood of a network, constant terms left out."""
    f = band.grid()
    mc = params["chirp_mass"] * MSUN_SECONDS
    amp = jnp.exp(params["log_amp"]) * (f / band.f_low) ** (-7.0 / 6.0)
    window = planck_ramp(f, params["turn_on"], params["full_on"])
    h = amp * window * jnp.exp(1j * pn_phase(mc, params["eta"], f))
    strains = detector_strain(h, f, gains, delays)
    cross = noise_weighted_overlap(strains, data, psd, band.df)
    power = noise_weighted_overlap(strains, strains, psd, band.df)
    return jnp.sum(cross - 0.5 * power)
