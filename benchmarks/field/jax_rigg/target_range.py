"""Shot groups, arrow flight and ring scores."""
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

GRAVITY = 9.80665


class Bow(NamedTuple):
    launch_speed: jax.Array   # m/s
    drag: jax.Array           # 1/m, speed decays as exp(-drag * x)


def _offsets(shots, origin):
    if origin == "group":
        return shots - shots.mean(axis=-2, keepdims=True)
    if origin == "aim":
        return shots
    raise ValueError(f"unknown origin {origin!r}")


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def mean_radius(shots, origin="group"):
    """Mean distance of the shots (..., n, 2) from their group centre, or from the aim at (0, 0)."""
    return jnp.linalg.norm(_offsets(shots, origin), axis=-1).mean(axis=-1)


def _mean_radius_fwd(shots, origin):
    off = _offsets(shots, origin)
    r = jnp.sqrt((off * off).sum(-1, keepdims=True))
    return r[..., 0].mean(-1), (off, r)


def _mean_radius_bwd(origin, res, g):
    off, r = res
    n = off.shape[-2]
    unit = jnp.where(r > 0, off / jnp.where(r > 0, r, 1.0), 0.0)
    return (g[..., None, None] * unit / n,)


mean_radius.defvjp(_mean_radius_fwd, _mean_radius_bwd)


def _phi(u):
    """expm1(u) / u and its derivative, both finite at zero."""
    small = jnp.abs(u) < 2e-2
    s = jnp.where(small, 1.0, u)
    em = jnp.expm1(s)
    val = jnp.where(small, 1 + u * (1/2 + u * (1/6 + u * (1/24 + u * (1/120 + u * (1/720 + u / 5040))))), em / s)
    der = jnp.where(small, 1/2 + u * (1/3 + u * (1/8 + u * (1/30 + u * (1/144 + u / 840)))),
                    (s * (em + 1) - em) / (s * s))
    return val, der


@jax.custom_jvp
def arrow_drop(bow, distance):
    """Drop of an arrow in flat fire with speed-proportional retardation.

    The speed after ``x`` metres is ``v0 * exp(-k x)``, hence the time of flight
    ``(exp(k x) - 1) / (k v0)`` and the drop ``g t**2 / 2``. The limit ``k -> 0``
    (vacuum) is regular and so is its derivative.

    Args:
      bow: ``Bow`` whose fields broadcast against ``distance``.
      distance: metres, non-negative.
    """
    t = distance * _phi(bow.drag * distance)[0] / bow.launch_speed
    return 0.5 * GRAVITY * t * t


@arrow_drop.defjvp
def _arrow_drop_jvp(primals, tangents):
    bow, x = primals
    d_bow, dx = tangents
    u = bow.drag * x
    phi, dphi = _phi(u)
    t = x * phi / bow.launch_speed
    dt = (jnp.exp(u) * dx + x * x * dphi * d_bow.drag - t * d_bow.launch_speed) / bow.launch_speed
    out = 0.5 * GRAVITY * t * t
    return out, GRAVITY * t * dt


@jax.custom_vjp
def rayleigh_ring_points(sigma, radii, steps):
    z = radii / sigma[..., None]
    return (-jnp.expm1(-0.5 * z * z) * steps).sum(-1)


def _ring_fwd(sigma, radii, steps):
    z = radii / sigma[..., None]
    miss = jnp.exp(-0.5 * z * z)
    return (-jnp.expm1(-0.5 * z * z) * steps).sum(-1), (sigma, radii, steps, z, miss)


def _ring_bwd(res, g):
    sigma, radii, steps, z, miss = res
    g = g[..., None]
    core = g * steps * miss * z / sigma[..., None]
    lead = tuple(range(sigma.ndim))
    return (-(core * z).sum(-1), core.sum(lead), (-g * jnp.expm1(-0.5 * z * z)).sum(lead))


rayleigh_ring_points.defvjp(_ring_fwd, _ring_bwd)


def world_archery_face(face_cm=122.0, dtype=jnp.float32):
    """Radii of the ten rings in metres and the point each one adds."""
    r = jnp.arange(1, 11, dtype=dtype) * face_cm / 2000.0
    return r, jnp.ones_like(r)


if __name__ == "__main__":
    print(rayleigh_ring_points(jnp.array([0.05, 0.1, 0.2]), *world_archery_face()))
