"""Pneumatic finger: constant-curvature kinematics, chamber wrench, tactile skin."""

import jax
import jax.numpy as jnp
import numpy as np

_SERIES = 0.5


def _bend(x):
    """(1 - cos x) / x and its derivative, finite through zero."""
    small = jnp.abs(x) < _SERIES
    z = jnp.where(small, 1.0, x)
    q = jnp.where(small, x, 0.0) ** 2
    h = jnp.sin(0.5 * z)
    val = jnp.where(
        small,
        x
        * (
            1 / 2
            - q * (1 / 24 - q * (1 / 720 - q * (1 / 40320 - q * (1 / 3628800 - q / 479001600))))
        ),
        2 * h * h / z,
    )
    der = jnp.where(
        small,
        1 / 2
        - q * (1 / 8 - q * (1 / 144 - q * (1 / 5760 - q * (1 / 403200 - q * (11 / 479001600))))),
        (z * jnp.sin(z) - 2 * h * h) / z**2,
    )
    return val, der


def _reach(x):
    """sin x / x and its derivative."""
    small = jnp.abs(x) < _SERIES
    z = jnp.where(small, 1.0, x)
    xs = jnp.where(small, x, 0.0)
    q = xs**2
    val = jnp.where(
        small,
        1 - q * (1 / 6 - q * (1 / 120 - q * (1 / 5040 - q * (1 / 362880 - q / 39916800)))),
        jnp.sin(z) / z,
    )
    der = jnp.where(
        small,
        -xs
        * (
            1 / 3
            - q * (1 / 30 - q * (1 / 840 - q * (1 / 45360 - q * (1 / 3991680 - q / 518918400))))
        ),
        (z * jnp.cos(z) - jnp.sin(z)) / z**2,
    )
    return val, der


@jax.custom_jvp
def arc_tip(kappa, phi, length):
    """Tip position of a constant-curvature segment.

    Args:
      kappa: curvature (1/m), any real, zero included.
      phi: bending-plane angle (rad).
      length: arc length (m).

    The three broadcast together; the result has a trailing axis (x, y, z).
    """
    x = kappa * length
    b, r = _bend(x)[0], _reach(x)[0]
    b, r, phi = jnp.broadcast_arrays(length * b, length * r, phi)
    return jnp.stack([jnp.cos(phi) * b, jnp.sin(phi) * b, r], -1)


@arc_tip.defjvp
def _arc_tip_jvp(primals, tangents):
    kappa, phi, length = primals
    dk, dphi, dl = tangents
    x = kappa * length
    dx = dk * length + kappa * dl
    (b, db), (r, dr) = _bend(x), _reach(x)
    d_side = dl * b + length * db * dx
    d_up = dl * r + length * dr * dx
    side = length * b
    c, s = jnp.cos(phi), jnp.sin(phi)
    parts = (c * d_side - s * side * dphi, s * d_side + c * side * dphi, d_up + 0.0 * phi)
    return arc_tip(kappa, phi, length), jnp.stack(jnp.broadcast_arrays(*parts), -1)


def make_chamber_wrench(angles=(0.0, 2 * np.pi / 3, 4 * np.pi / 3), radius=0.011):
    """Wrench of parallel chambers at `angles` around the backbone.

    The returned function maps pressures (..., N) and areas (N,) to the bending
    moment (..., 2) and the axial force (...).
    """
    angles = np.asarray(angles)
    lever = radius * np.stack([np.sin(angles), -np.cos(angles)])  # (2, N)

    @jax.custom_vjp
    def wrench(pressure, area):
        push = pressure * area
        return push @ lever.T, push.sum(-1)

    def fwd(pressure, area):
        return wrench(pressure, area), (pressure, area)

    def bwd(res, cts):
        pressure, area = res
        g_moment, g_axial = cts
        g_push = g_moment @ lever
        d_area = jnp.sum((pressure * g_push).reshape(-1, area.shape[0]), 0)
        return (g_push + g_axial[..., None]) * area, d_area

    wrench.defvjp(fwd, bwd)
    return wrench


chamber_wrench = make_chamber_wrench()


def _fold(x, shape):
    x = x.sum(tuple(range(x.ndim - len(shape))))
    ax = tuple(i for i, n in enumerate(shape) if n == 1)
    return x.sum(ax, keepdims=True)


def _spread(contacts, taxels, sigma, touching):
    where = jnp.where(touching[..., None], contacts, 0.0)
    diff = where[:, :, None, :] - taxels  # (B, K, M, 2)
    d2 = jnp.sum(diff**2, -1)
    sig = jnp.broadcast_to(sigma, touching.shape)[..., None]  # (B, K, 1)
    return diff, d2, sig, jax.nn.softmax(-0.5 * d2 / sig**2, -1)


# contacts (B, K, 2), forces (B, K), taxels (M, 2), touching (B, K) bool;
# sigma > 0 broadcasts against (B, K)
@jax.custom_vjp
def taxel_blend(contacts, forces, taxels, sigma, touching):
    *_, w = _spread(contacts, taxels, sigma, touching)
    return jnp.einsum("bk,bkm->bm", jnp.where(touching, forces, 0.0), w)


def _blend_fwd(contacts, forces, taxels, sigma, touching):
    return taxel_blend(contacts, forces, taxels, sigma, touching), (
        contacts,
        forces,
        taxels,
        sigma,
        touching,
    )


def _blend_bwd(res, g):
    contacts, forces, taxels, sigma, touching = res
    diff, d2, sig, w = _spread(contacts, taxels, sigma, touching)
    pull = jnp.einsum("bm,bkm->bk", g, w)
    d_forces = jnp.where(touching, pull, 0.0)
    f = jnp.where(touching, forces, 0.0)[..., None]
    d_score = f * w * (g[:, None, :] - pull[..., None])
    d_diff = -(d_score / sig**2)[..., None] * diff
    d_sigma = jnp.sum(d_score * d2, -1) / sig[..., 0] ** 3
    return (d_diff.sum(2), d_forces, -d_diff.sum((0, 1)), _fold(d_sigma, jnp.shape(sigma)), None)


taxel_blend.defvjp(_blend_fwd, _blend_bwd)
