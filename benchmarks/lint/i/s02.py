import jax.numpy as jnp

KPC_IN_M = 3.0857e19
GM_BULGE = 1.33e30
SOFTENING_KPC = 0.1


def circular_speed(x_kpc, y_kpc):
    x = jnp.asarray(x_kpc, jnp.float32)
    y = jnp.asarray(y_kpc, jnp.float32)
    soft = SOFTENING_KPC
    radius = jnp.sqrt(x * x + y * y + soft * soft) * KPC_IN_M
    return jnp.sqrt(GM_BULGE / radius)
