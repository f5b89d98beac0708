"""One-dimensional nematic cells: elastic energy, retardation, transmission.

A cell is sampled at n planes, equally spaced through the gap, from one glass to the
other.  `theta` is the tilt of the director out of the glass plane in radians; the
outer planes carry the pretilt that rubbing gives them.
"""

import jax
import jax.numpy as jnp
import numpy as np

GAP = 4.2e-6  # m
LINES = np.array([450e-9, 546e-9, 589e-9, 633e-9])
# Cauchy pairs (A, B in m^2) of a common mixture
ORDINARY = (1.4990, 7.2e-15)
EXTRAORDINARY = (1.6690, 1.56e-14)


def cauchy(pair, wavelength):
    return pair[0] + pair[1] / wavelength**2


def _reduce_to(x, shape):
    extra = x.ndim - len(shape)
    x = jnp.sum(x, axis=tuple(range(extra)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and x.shape[i] != 1)
    return jnp.sum(x, axis=axes, keepdims=True) if axes else x


@jax.custom_gradient
def frank_energy(theta, k_splay, k_bend, spacing):
    """Elastic energy per area of splay and bend, theta (..., n) -> (...)."""
    mid = 0.5 * (theta[..., 1:] + theta[..., :-1])
    step = theta[..., 1:] - theta[..., :-1]
    c2, s2 = jnp.cos(mid) ** 2, jnp.sin(mid) ** 2
    modulus = k_splay * c2 + k_bend * s2
    energy = 0.5 * jnp.sum(modulus * step**2, axis=-1) / spacing

    def grad(g):
        scaled = g[..., None] / spacing
        tension = modulus * step
        twist = 0.25 * (k_bend - k_splay) * jnp.sin(2.0 * mid) * step**2
        d_theta = jnp.zeros_like(theta)
        d_theta = d_theta.at[..., 1:].add(scaled * (twist + tension))
        d_theta = d_theta.at[..., :-1].add(scaled * (twist - tension))
        d_splay = 0.5 * jnp.sum(scaled * c2 * step**2)
        d_bend = 0.5 * jnp.sum(scaled * s2 * step**2)
        return d_theta, d_splay, d_bend, -jnp.sum(g * energy) / spacing

    return energy, grad


def _plane_weights(n, gap):
    spacing = gap / (n - 1)
    return jnp.full(n, spacing).at[jnp.array([0, n - 1])].mul(0.5)


@jax.custom_gradient
def retardation(theta, n_ord, n_ext, wavelength):
    """Phase between the two polarisations, theta (..., n) -> (..., W).

    Indices and wavelength are (W,); the gap is GAP, integrated by trapezoids.
    """
    n_planes = theta.shape[-1]
    w = _plane_weights(n_planes, GAP)[:, None]
    tilt = theta[..., None]
    c2, s2 = jnp.cos(tilt) ** 2, jnp.sin(tilt) ** 2
    root = n_ord**2 * c2 + n_ext**2 * s2
    n_eff = n_ord * n_ext / jnp.sqrt(root)
    factor = 2.0 * jnp.pi / wavelength
    phase = factor * jnp.sum(w * (n_eff - n_ord), axis=-2)

    def grad(g):
        spacing = GAP / (n_planes - 1)
        gf = (g * factor)[..., None, :]
        slope = -0.5 * n_eff / root * (n_ext**2 - n_ord**2) * jnp.sin(2.0 * tilt)
        d_theta = spacing * jnp.sum(gf * slope, axis=-1)
        lead = tuple(range(gf.ndim - 1))
        d_ord = jnp.sum(gf * w * (n_eff**3 * s2 / n_ord**3 - 1.0), axis=lead)
        d_ext = jnp.sum(gf * w * n_eff**3 * c2 / n_ext**3, axis=lead)
        d_wave = -jnp.sum(g * phase, axis=tuple(range(g.ndim - 1))) / wavelength
        return d_theta, d_ord, d_ext, d_wave

    return phase, grad


def make_polariser_pair(setting):
    """Transmission of a uniform retarder; `setting` is 'crossed' or 'parallel'."""
    if setting not in ("crossed", "parallel"):
        raise ValueError(setting)
    sign = 1.0 if setting == "crossed" else -1.0

    @jax.custom_gradient
    def transmission(phase, azimuth):
        shape = jnp.shape(azimuth)
        a, p = jnp.sin(2.0 * azimuth), jnp.sin(0.5 * phase)
        leak = (a * p) ** 2
        out = leak if sign > 0 else 1.0 - leak

        def grad(g):
            g = sign * g
            d_phase = 0.5 * g * a**2 * jnp.sin(phase)
            d_azimuth = 2.0 * g * p**2 * jnp.sin(4.0 * azimuth)
            return _reduce_to(d_phase, phase.shape), _reduce_to(d_azimuth, shape)

        return out, grad

    return transmission


def tilted_profile(n, pretilt, peak):
    z = jnp.linspace(0.0, 1.0, n)
    return pretilt + (peak - pretilt) * jnp.sin(jnp.pi * z)


def fit_profile(
    measured,
    azimuth=np.pi / 4,
    n=25,
    pretilt=np.deg2rad(3.0),
    k=(10.8e-12, 14.5e-12),
    stiffness=2e4,
    rounds=200,
    rate=2e-3,
):
    """Tilt profile that explains the measured transmissions (C, W) of C voltages."""
    lines = jnp.asarray(LINES)
    n_o, n_e = cauchy(ORDINARY, lines), cauchy(EXTRAORDINARY, lines)
    through = make_polariser_pair("crossed")
    theta = jnp.stack([tilted_profile(n, pretilt, p) for p in np.linspace(0.1, 1.2, len(measured))])

    def objective(theta):
        phase = retardation(theta, n_o, n_e, lines)
        misfit = jnp.sum((through(phase, jnp.asarray(azimuth)) - measured) ** 2)
        elastic = frank_energy(theta, k[0], k[1], GAP / (n - 1))
        return misfit + stiffness * jnp.sum(elastic)

    step = jax.jit(jax.grad(objective))
    for _ in range(rounds):
        theta = theta - rate * step(theta)
    return theta


if __name__ == "__main__":
    profile = fit_profile(jnp.array([[0.2, 0.5, 0.6, 0.4], [0.1, 0.3, 0.2, 0.2]]))
    print(np.rad2deg(np.asarray(profile[:, ::6])).round(1))
