import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.ops import segment_sum


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def roi_traces(movie, footprint, roi, n_roi):
    return _roi_fwd(movie, footprint, roi, n_roi)[0]


def _roi_fwd(movie, footprint, roi, n_roi):
    mass = segment_sum(footprint, roi, n_roi)
    mass = jnp.where(mass > 0, mass, 1.0)
    total = segment_sum((movie * footprint).T, roi, n_roi).T
    traces = total / mass
    return traces, (movie, footprint, roi, mass, traces)


def _roi_bwd(n_roi, res, ct):
    movie, footprint, roi, mass, traces = res
    per_pixel = (ct / mass)[:, roi]
    movie_bar = per_pixel * footprint
    footprint_bar = jnp.sum(per_pixel * (movie - traces[:, roi]), axis=0)
    return movie_bar, footprint_bar, None


roi_traces.defvjp(_roi_fwd, _roi_bwd)


@functools.partial(jax.custom_vjp, nondiff_argnums=(1,))
def delta_f_over_f(traces, quiet=0.2):
    return _dff_fwd(traces, quiet)[0]


def _quiet_frames(n_frames, quiet):
    return max(1, int(round(quiet * n_frames)))


def _dff_fwd(traces, quiet):
    k = _quiet_frames(traces.shape[-1], quiet)
    order = jnp.argsort(traces, axis=-1)
    lowest = jnp.take_along_axis(traces, order[..., :k], axis=-1)
    base = jnp.mean(lowest, axis=-1, keepdims=True)
    return traces / base - 1.0, (traces, base, order)


def _dff_bwd(quiet, res, ct):
    traces, base, order = res
    k = _quiet_frames(traces.shape[-1], quiet)
    base_bar = -jnp.sum(ct * traces, axis=-1, keepdims=True) / base ** 2
    chosen = (order < k).astype(traces.dtype)
    return (ct / base + base_bar * chosen / k,)


delta_f_over_f.defvjp(_dff_fwd, _dff_bwd)


def kinetics(rise_s, decay_s, rate_hz):
    a = np.exp(-1.0 / (np.asarray(decay_s) * rate_hz))
    b = np.exp(-1.0 / (np.asarray(rise_s) * rate_hz))
    return {"g1": jnp.asarray(a + b), "g2": jnp.asarray(-a * b), "c0": jnp.zeros(np.shape(a))}


@jax.custom_vjp
def ar2_calcium(spikes, kin):
    return _ar2_fwd(spikes, kin)[0]


def _second_order(drive, g1, g2, last):
    def tick(carry, s):
        one, two = carry
        c = s + g1 * one + g2 * two
        return (c, one), c

    _, out = jax.lax.scan(tick, (last, jnp.zeros_like(last)), drive.T)
    return out.T


def _ar2_fwd(spikes, kin):
    c = _second_order(spikes, kin["g1"], kin["g2"], kin["c0"])
    return c, (c, kin)


def _ar2_bwd(res, ct):
    c, kin = res
    g1, g2, c0 = kin["g1"], kin["g2"], kin["c0"]
    lam = _second_order(ct[:, ::-1], g1, g2, jnp.zeros_like(c0))[:, ::-1]
    past = jnp.concatenate([c0[:, None], c[:, :-1]], axis=1)
    kin_bar = {
        "g1": jnp.sum(lam * past, axis=1),
        "g2": jnp.sum(lam[:, 1:] * past[:, :-1], axis=1),
        "c0": g1 * lam[:, 0] + g2 * lam[:, 1],
    }
    return lam, kin_bar


ar2_calcium.defvjp(_ar2_fwd, _ar2_bwd)


def fluorescence(calcium, kd=0.6, hill=2.3, gain=4.0):
    u = calcium / kd
    return 1.0 + gain * u ** hill / (1.0 + u ** hill)


def ring_neuropil(movie, ring):
    return movie @ (ring / jnp.sum(ring, axis=1, keepdims=True)).T


def fit_loss(params, movie, roi, ring, n_roi):
    cells = roi_traces(movie, jax.nn.softplus(params["footprint"]), roi, n_roi)
    clean = cells - jax.nn.sigmoid(params["alpha"]) * ring_neuropil(movie, ring)
    dff = delta_f_over_f(clean.T, 0.3)
    model = fluorescence(ar2_calcium(jax.nn.softplus(params["spikes"]), params["kin"])) - 1.0
    return jnp.mean((dff - model) ** 2) + 1e-2 * jnp.mean(jax.nn.softplus(params["spikes"]))


def demo(seed=0):
    rng = np.random.default_rng(seed)
    frames, pixels, n_roi = 60, 48, 5
    roi = rng.integers(-1, n_roi, pixels)          # -1: a pixel outside every cell, left out
    movie = jnp.asarray(100.0 + rng.gamma(2.0, 5.0, (frames, pixels)))
    ring = jnp.asarray(rng.random((n_roi, pixels)) < 0.4, movie.dtype)
    params = {
        "footprint": jnp.asarray(rng.normal(size=pixels)),
        "alpha": jnp.asarray(0.2),
        "spikes": jnp.asarray(rng.normal(size=(n_roi, frames)) - 2.0),
        "kin": kinetics(np.full(n_roi, 0.08), np.linspace(0.4, 0.9, n_roi), 20.0),
    }
    return jax.value_and_grad(fit_loss)(params, movie, jnp.asarray(roi), ring, n_roi)
