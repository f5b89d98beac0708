"""Figuring a telescope mirror: shape, polishing, knife-edge readings, image quality.

Lengths on the glass are in millimetres unless a name says otherwise.
"""
from typing import NamedTuple

import jax
import jax.numpy as jnp

PRESTON = 1.0e-3  # nm per unit dwell at unit pressure


class KnifeFit(NamedTuple):
    offset: jax.Array
    slope: jax.Array


@jax.custom_jvp
def conic_sag(r, radius, conic):
    """Depth of a conic surface at zone radius ``r``.

    radius: radius of curvature at the pole (negative for a convex surface).
    conic:  0 sphere, -1 paraboloid, below -1 hyperboloid, positive oblate.
    The three broadcast against each other.
    """
    c = 1.0 / radius
    s = jnp.sqrt(1.0 - (1.0 + conic) * c * c * r * r)
    return c * r * r / (1.0 + s)


@conic_sag.defjvp
def _conic_sag_jvp(primals, tangents):
    r, radius, conic = primals
    dr, dradius, dconic = tangents
    c = 1.0 / radius
    dc = -c * c * dradius
    s = jnp.sqrt(1.0 - (1.0 + conic) * c * c * r * r)
    z = c * r * r / (1.0 + s)
    dz = (c * r / s) * dr + r * r / (s * (1.0 + s)) * dc
    dz = dz + c * z * z / (2.0 * s) * dconic
    return z, dz


@jax.custom_vjp
def preston_removal(dwell, footprint, pressure):
    """Glass removed along a diameter by a session of strokes.

    dwell      (strokes, N) time the pad's centre spends at each station
    footprint  (K,) wear of the pad about its centre, K odd; star and petal laps and pads
               that hang over the edge wear more on one side than on the other
    pressure   (strokes,)
    Returns (strokes, N), the wear at each station. No glass lies beyond the ends.
    """
    if footprint.shape[0] % 2 == 0:
        raise ValueError("the footprint needs a centre station")
    wear = _spread(dwell, footprint)
    return PRESTON * pressure[:, None] * wear


def _spread(rows, footprint):
    return jax.vmap(lambda row: jnp.convolve(row, footprint, mode="same"))(rows)


def _removal_fwd(dwell, footprint, pressure):
    return preston_removal(dwell, footprint, pressure), (dwell, footprint, pressure)


def _removal_bwd(res, g):
    dwell, footprint, pressure = res
    n, k = dwell.shape[1], footprint.shape[0]
    half = k // 2
    gw = PRESTON * pressure[:, None] * g
    d_dwell = _spread(gw, footprint)
    padded = jnp.pad(dwell, ((0, 0), (half, half)))
    windows = jnp.stack([padded[:, k - 1 - j:k - 1 - j + n] for j in range(k)])
    d_footprint = (windows * gw).sum(axis=(1, 2))
    d_pressure = PRESTON * (g * _spread(dwell, footprint)).sum(axis=1)
    return d_dwell, d_footprint, d_pressure


preston_removal.defvjp(_removal_fwd, _removal_bwd)


def _normal_matrix(x, w):
    return jnp.array([[w.sum(), (w * x).sum()], [(w * x).sum(), (w * x * x).sum()]])


@jax.custom_vjp
def zonal_fit(readings, zones, trust):
    """Weighted straight line through knife-edge readings against zone radius squared.

    A paraboloid tested at its centre of curvature gives slope 1/R.  readings, zones and
    trust are all (Z,), with at least two distinct zones of positive trust.
    """
    x = zones ** 2
    rhs = jnp.array([(trust * readings).sum(), (trust * readings * x).sum()])
    beta = jnp.linalg.solve(_normal_matrix(x, trust), rhs)
    return KnifeFit(beta[0], beta[1])


def _fit_fwd(readings, zones, trust):
    fit = zonal_fit(readings, zones, trust)
    return fit, (readings, zones, trust, fit)


def _fit_bwd(res, g):
    readings, zones, trust, fit = res
    x = zones ** 2
    lam = jnp.linalg.solve(_normal_matrix(x, trust), jnp.stack([g.offset, g.slope]))
    leverage = lam[0] + lam[1] * x
    misfit = readings - fit.offset - fit.slope * x
    d_x = trust * (lam[1] * misfit - fit.slope * leverage)
    return trust * leverage, 2.0 * zones * d_x, misfit * leverage


zonal_fit.defvjp(_fit_fwd, _fit_bwd)


@jax.custom_gradient
def strehl_ratio(errors, area):
    """Strehl ratio of each mirror by the extended Marechal formula.

    errors: wavefront error in waves, one row per mirror and one column per zone.
    area: area of the zones in square centimetres, shared by the mirrors.
    """
    total = area.sum()
    share = area / total
    centred = errors - (errors @ share)[:, None]
    spread = (centred ** 2) @ share
    k = (2.0 * jnp.pi) ** 2
    strehl = jnp.exp(-k * spread)

    def grad(g):
        back = -k * g * strehl
        d_errors = 2.0 * back[:, None] * share * centred
        d_area = (back[:, None] * (centred ** 2 - spread[:, None])).sum(axis=0)
        return d_errors, d_area

    return strehl, grad


def ring_areas(edges):
    """Areas (cm^2) of the rings between successive zone edges given in mm."""
    return jnp.pi * jnp.diff(edges ** 2) / 100.0


def main():
    r = jnp.linspace(0.0, 75.0, 6)
    print("sag", conic_sag(r, 1200.0, -1.0))
    print("fit", zonal_fit(r[1:] ** 2 / 1200.0, r[1:], jnp.ones(5)))
    print("strehl", strehl_ratio(0.02 * jnp.ones((1, 5)), ring_areas(r)))


if __name__ == "__main__":
    main()
