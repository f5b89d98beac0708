"""Loss, step and filter of a global weather emulator on a regular latitude-longitude grid."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

VARIABLES = ("t850", "z500", "q700", "u10")


class Bounds(NamedTuple):
    gain: jax.Array    # [variables], std of the 6-hour tendency
    floor: jax.Array   # [variables], lowest value a variable may take (0 for humidity)


def cell_area(lat_deg, n_lon):
    """[lat, lon] weights, mean 1."""
    w = np.cos(np.deg2rad(lat_deg))
    return np.repeat((w / w.mean())[:, None], n_lon, axis=1)


def make_area_loss(lat_deg):
    """Loss for the rows at lat_deg; the returned function takes

    pred, target [batch, variable, lat, lon], log_scale [variable] (log of each variable's error
    variance, learned) and observed (bool, as pred), and gives a scalar.
    """
    rows = np.cos(np.deg2rad(np.asarray(lat_deg)))[:, None]

    def terms(pred, target, log_scale, observed):
        w = jnp.where(observed, rows, 0.0).astype(pred.dtype)
        miss = jnp.where(observed, pred - target, 0.0)
        area = jnp.maximum(jnp.sum(w, axis=(0, 2, 3)), 1e-12)
        mse = jnp.sum(w * miss ** 2, axis=(0, 2, 3)) / area
        return w, miss, area, mse

    @jax.custom_vjp
    def area_loss(pred, target, log_scale, observed):
        *_, mse = terms(pred, target, log_scale, observed)
        return 0.5 * jnp.mean(mse * jnp.exp(-log_scale) + log_scale)

    def fwd(pred, target, log_scale, observed):
        w, miss, area, mse = terms(pred, target, log_scale, observed)
        inv = jnp.exp(-log_scale)
        return 0.5 * jnp.mean(mse * inv + log_scale), (w * miss, inv / area, mse * inv)

    def bwd(res, ct):
        pulled, coef, scaled = res
        share = ct / coef.shape[0]
        pred_bar = share * coef[:, None, None] * pulled
        return pred_bar, -pred_bar, 0.5 * share * (1.0 - scaled), None

    area_loss.defvjp(fwd, bwd)
    return area_loss


@jax.custom_vjp
def anomaly_correlation(
    pred,   # [batch, variable, lat, lon]
    truth,  # same
    clim,   # [variable, lat, lon], climatology (smoothed by a trained kernel in some of our runs)
    area,   # [lat, lon], from cell_area; a constant of the grid
):
    """[batch, variable], the uncentred anomaly correlation."""
    return _acc_fwd(pred, truth, clim, area)[0]


def _over_globe(x):
    return jnp.sum(x, axis=(-2, -1), keepdims=True)


def _acc_fwd(pred, truth, clim, area):
    p, t = pred - clim, truth - clim
    pp, tt = _over_globe(area * p * p), _over_globe(area * t * t)
    norm = jnp.sqrt(pp * tt)
    acc = _over_globe(area * p * t) / norm
    return acc[..., 0, 0], (p, t, pp, tt, norm, acc, area)


def _acc_bwd(res, ct):
    p, t, pp, tt, norm, acc, area = res
    ct = ct[..., None, None]
    pred_bar = ct * (area * t / norm - acc * p / pp)
    truth_bar = ct * (area * p / norm - acc * t / tt)
    return pred_bar, truth_bar, -jnp.sum(pred_bar + truth_bar, axis=0), None


anomaly_correlation.defvjp(_acc_fwd, _acc_bwd)


@jax.custom_vjp
def bounded_step(state, increment, bounds):
    # state, increment: [batch, variable, lat, lon]; bounds: Bounds
    return _step_fwd(state, increment, bounds)[0]


def _per_variable(v):
    return v[:, None, None]


def _step_fwd(state, increment, bounds):
    raw = state + _per_variable(bounds.gain) * increment
    free = raw > _per_variable(bounds.floor)
    return jnp.where(free, raw, _per_variable(bounds.floor)), (free, increment, bounds.gain)


def _step_bwd(res, ct):
    free, increment, gain = res
    moved = jnp.where(free, ct, 0.0)
    gain_bar = jnp.einsum("bvij,bvij->v", moved, increment)
    floor_bar = jnp.sum(ct - moved, axis=(0, 2, 3))
    return moved, _per_variable(gain) * moved, Bounds(gain_bar, floor_bar)


bounded_step.defvjp(_step_fwd, _step_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def zonal_filter(
    field,    # [..., lat, lon]
    nu,       # [lat], damping of the shortest wave along each row
    order=4,  # power of the wavenumber
):
    """Hyperdiffusion along the rows, done in Fourier space; any number of longitudes."""
    return _zonal_fwd(field, nu, order)[0]


def _zonal_fwd(field, nu, order):
    n = field.shape[-1]
    wave = (jnp.arange(n // 2 + 1, dtype=field.dtype) / (n // 2)) ** order
    damp = jnp.exp(-nu[:, None] * wave)
    spec = jnp.fft.rfft(field, axis=-1) * damp
    return jnp.fft.irfft(spec, n=n, axis=-1), (spec, wave, damp)


def _zonal_bwd(order, res, ct):
    spec, wave, damp = res
    n = ct.shape[-1]
    ct_spec = jnp.fft.rfft(ct, axis=-1)
    field_bar = jnp.fft.irfft(ct_spec * damp, n=n, axis=-1)
    # Parseval over the half spectrum: the mean has wave == 0, all the others stand for a pair
    cross = jnp.real(jnp.conj(ct_spec) * spec) * wave
    nu_bar = -2.0 / n * jnp.sum(cross, axis=-1)
    return field_bar, jnp.sum(nu_bar.reshape(-1, nu_bar.shape[-1]), axis=0)


zonal_filter.defvjp(_zonal_fwd, _zonal_bwd)


def rollout(net, params, state, steps):
    """Free run; params is {"net": ..., "bounds": Bounds, "nu": [lat]}."""
    def one(x, _):
        x = bounded_step(x, net(params["net"], x), params["bounds"])
        x = zonal_filter(x, params["nu"], 4)
        return x, x
    return jax.lax.scan(one, state, None, length=steps)[1]


def train_loss(params, net, batch, lat_deg):
    loss_of = make_area_loss(lat_deg)
    path = rollout(net, params, batch["start"], batch["targets"].shape[0])
    pieces = [loss_of(path[i], batch["targets"][i], params["log_scale"], batch["observed"][i])
              for i in range(path.shape[0])]
    return sum(pieces) / len(pieces)
