"""One symplectic Euler step of the pendulum."""
from functools import partial

import jax
import jax.numpy as jnp


def _advance(theta, omega, dt):
    omega_new = omega - dt * jnp.sin(theta)
    theta_new = theta + dt * omega_new
    return theta_new, omega_new


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def pendulum_step(theta, omega, dt):
    """theta, omega: (n,) states, dt: python float. Returns the pair after dt."""
    return _advance(theta, omega, dt)


def pendulum_step_fwd(theta, omega, dt):
    theta_new, omega_new = _advance(theta, omega, dt)
    return (theta_new, omega_new), (theta_new,)


def pendulum_step_bwd(dt, res, cts):
    (theta_new,) = res
    ct_theta, ct_omega = cts
    ct_vel = ct_omega + dt * ct_theta
    return ct_theta - dt * jnp.cos(theta_new) * ct_vel, ct_vel


pendulum_step.defvjp(pendulum_step_fwd, pendulum_step_bwd)
