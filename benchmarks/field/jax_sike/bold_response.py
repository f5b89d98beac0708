"""Forward model of event-related BOLD series.

The module turns a table of events into voxel time courses and back into the
residuals that our group-level fits use.

Notation
--------
V : voxels, T : scans, E : events, K : taps of the response kernel.
"""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import digamma, gammaln

TR = 0.8  # repetition time, s
KERNEL_SPAN = 24.0  # s of response kept
DEFAULT_SHAPE = dict(peak=6.0, undershoot=16.0, ratio=1.0 / 6.0)


def _gamma_density(t, a):
    safe = jnp.where(t > 0, t, 1.0)
    dens = jnp.exp((a - 1.0) * jnp.log(safe) - safe - gammaln(a))
    return jnp.where(t > 0, dens, 0.0)


@jax.custom_jvp
def canonical_hrf(t, peak, undershoot, ratio):
    """Difference of two unit-rate gamma densities.

    Parameters
    ----------
    t : array
        Seconds after the event; the response is zero for ``t <= 0``.
    peak, undershoot : float
        Shapes of the main lobe and of the undershoot, both above 2.
    ratio : float
        Depth of the undershoot relative to the main lobe.

    Returns
    -------
    array
        Response, shaped like `t`.
    """
    return _gamma_density(t, peak) - ratio * _gamma_density(t, undershoot)


@canonical_hrf.defjvp
def _canonical_hrf_jvp(primals, tangents):
    t, a, b, c = primals
    dt, da, db, dc = tangents
    main, under = _gamma_density(t, a), _gamma_density(t, b)
    safe = jnp.where(t > 0, t, 1.0)
    logt = jnp.log(safe)
    slope = main * ((a - 1.0) / safe - 1.0) - c * under * ((b - 1.0) / safe - 1.0)
    out = main - c * under
    tan = (
        slope * dt
        + main * (logt - digamma(a)) * da
        - c * under * (logt - digamma(b)) * db
        - under * dc
    )
    return out, tan


def response_kernel(shape=DEFAULT_SHAPE, tr=TR):
    taps = jnp.arange(0.0, KERNEL_SPAN, tr)
    return canonical_hrf(taps, shape["peak"], shape["undershoot"], shape["ratio"])


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def event_regressor(amplitudes, kernel, onsets, n_scans):
    """Sum of responses to events, ``y[t] = sum_e a[e] * k[t - onset[e]]``.

    Parameters
    ----------
    amplitudes : (E,) array
    kernel : (K,) array
    onsets : (E,) int array
        Scan of each event, in ``[0, n_scans)``.  With short inter-stimulus
        intervals several events fall into one scan; their amplitudes add.
    n_scans : int

    Returns
    -------
    (T,) array
    """
    sticks = jnp.zeros(n_scans, amplitudes.dtype).at[onsets].add(amplitudes)
    return jnp.convolve(sticks, kernel)[:n_scans]


def _event_regressor_fwd(amplitudes, kernel, onsets, n_scans):
    return event_regressor(amplitudes, kernel, onsets, n_scans), (amplitudes, kernel, onsets)


def _event_regressor_bwd(n_scans, res, g):
    amplitudes, kernel, onsets = res
    n_taps = kernel.shape[0]
    padded = jnp.pad(g, (0, n_taps))
    lagged = padded[jnp.arange(n_scans)[:, None] + jnp.arange(n_taps)[None, :]]
    at_onset = lagged @ kernel
    sticks = jnp.zeros(n_scans, amplitudes.dtype).at[onsets].set(amplitudes)
    return at_onset[onsets], sticks @ lagged, None


event_regressor.defvjp(_event_regressor_fwd, _event_regressor_bwd)


def _baseline(series, rest, scope):
    w = rest.astype(series.dtype)
    per_voxel = series @ w / jnp.sum(w)
    if scope == "voxel":
        return per_voxel[:, None]
    if scope == "grand":
        return jnp.mean(per_voxel)
    raise ValueError(f"unknown scope {scope!r}")


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def percent_signal(series, rest, scope):
    """Percent change of each voxel from the mean of its rest scans.

    Parameters
    ----------
    series : (V, T) array, positive intensities
    rest : (T,) bool array, at least one True
    scope : {'voxel', 'grand'}
        Baseline of every voxel by itself, or one for the whole brain.
    """
    return 100.0 * (series / _baseline(series, rest, scope) - 1.0)


def _percent_signal_fwd(series, rest, scope):
    base = _baseline(series, rest, scope)
    return 100.0 * (series / base - 1.0), (series, base, rest)


def _percent_signal_bwd(scope, res, g):
    series, base, rest = res
    w = rest.astype(series.dtype)
    w = w / jnp.sum(w)
    pulled = g * series / base**2
    if scope == "voxel":
        share = jnp.sum(pulled, axis=1, keepdims=True) * w
    else:
        share = jnp.sum(pulled) * w / series.shape[0]
    return 100.0 * (g / base - share), None


percent_signal.defvjp(_percent_signal_fwd, _percent_signal_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def prewhiten(series, rho, edge="scale"):
    """Remove first-order autocorrelation.

    Parameters
    ----------
    series : (V, T) array
    rho : (V,) array
        Lag-one coefficient of each voxel, inside (-1, 1).
    edge : {'scale', 'keep'}
        'scale' multiplies the first scan by ``sqrt(1 - rho**2)`` (Prais and
        Winsten), 'keep' leaves it.
    """
    gain = jnp.sqrt(1.0 - rho**2) if edge == "scale" else jnp.ones_like(rho)
    first = series[:, :1] * gain[:, None]
    return jnp.concatenate([first, series[:, 1:] - rho[:, None] * series[:, :-1]], axis=1)


def _prewhiten_fwd(series, rho, edge):
    return prewhiten(series, rho, edge), (series, rho)


def _prewhiten_bwd(edge, res, g):
    series, rho = res
    gain = jnp.sqrt(1.0 - rho**2) if edge == "scale" else jnp.ones_like(rho)
    d_series = jnp.concatenate([g[:, :1] * gain[:, None], g[:, 1:]], axis=1)
    d_series = d_series.at[:, :-1].add(-rho[:, None] * g[:, 1:])
    d_rho = -jnp.sum(g[:, 1:] * series[:, :-1], axis=1)
    return d_series, d_rho


prewhiten.defvjp(_prewhiten_fwd, _prewhiten_bwd)


def residual_power(params, series, events, rest):
    """Whitened residual power of one run; `events` holds 'onset' and optional 'gain'."""
    change = percent_signal(series, rest, "voxel")
    kernel = canonical_hrf(
        jnp.arange(0.0, KERNEL_SPAN, TR), params["peak"], params["undershoot"], params["ratio"]
    )
    x = event_regressor(params["amplitude"], kernel, events["onset"], series.shape[1])
    resid = prewhiten(change - params["beta"][:, None] * x[None, :], params["rho"], "scale")
    return jnp.mean(resid**2)


def simulated_run(seed=0, voxels=5, scans=60, n_events=9):
    rng = np.random.default_rng(seed)
    onsets = rng.integers(0, scans - 10, n_events)
    series = 800.0 + 10.0 * rng.standard_normal((voxels, scans))
    return jnp.asarray(series), {"onset": jnp.asarray(onsets)}, jnp.arange(scans) % 12 < 4
