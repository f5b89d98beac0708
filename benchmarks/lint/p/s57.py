import jax
import jax.numpy as jnp


@jax.jit
def time_to_gap(speed, accel, gap):
    """Time until a car at `speed` with gentle `accel` has covered `gap`."""
    speed = jnp.maximum(speed, 0.1)
    accel = jnp.clip(accel, 1e-4, 8.0)
    gap = jnp.maximum(gap, 0.0)
    end_speed = jnp.sqrt(speed ** 2 + 2.0 * accel * gap)
    return 2.0 * gap / (end_speed + speed)
