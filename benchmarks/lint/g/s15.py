import jax.numpy as jnp


def apply_rotvec(omega, p):
    sq = jnp.sum(omega * omega)
    tiny = sq < 1e-8
    angle = jnp.sqrt(jnp.where(tiny, 1.0, sq))
    half = 0.5 * angle
    a = jnp.where(tiny, 1.0 - sq / 6.0, jnp.sin(angle) / angle)
    b = jnp.where(tiny, 0.5, 0.5 * (jnp.sin(half) / half) ** 2)
    wp = jnp.cross(omega, p)
    return p + a * wp + b * jnp.cross(omega, wp)


def registration_loss(omega, moving, fixed):
    return jnp.sum((apply_rotvec(omega, moving) - fixed) ** 2)
