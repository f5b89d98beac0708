"""Planar mechanisms and wheeled bases."""
from functools import partial

import jax
import jax.numpy as jnp
from jax import lax

NEWTON_STEPS = 25


def _loop_closure(links, crank, angles):
    ground, a, b, c = links
    coupler, follower = angles
    return jnp.stack([
        a * jnp.cos(crank) + b * jnp.cos(coupler) - c * jnp.cos(follower) - ground,
        a * jnp.sin(crank) + b * jnp.sin(coupler) - c * jnp.sin(follower),
    ])


def _dense(g, y):
    return jnp.linalg.solve(jax.jacfwd(g)(y), y)


def four_bar_angles(links, crank, guess=(0.6, 1.4)):
    """Coupler and follower angles of a four-bar linkage, as a (2,) array.

    links is (4,): ground, crank, coupler, follower lengths, of a linkage that
    closes for this crank angle (a scalar). The guess picks the open or the
    crossed branch, and has no influence otherwise.
    """
    residual = partial(_loop_closure, links, crank)

    def newton(f, x0):
        def body(_, x):
            return x - jnp.linalg.solve(jax.jacfwd(f)(x), f(x))

        return lax.fori_loop(0, NEWTON_STEPS, body, x0)

    x0 = jnp.asarray(guess, links.dtype)
    return lax.custom_root(residual, x0, newton, _dense)


def coupler_curve(links, cranks, tip):
    """Path of a point fixed to the coupler; cranks (T,), tip (2,) -> (T, 2)."""

    def one(crank):
        th = four_bar_angles(links, crank)[0]
        rot = jnp.array([[jnp.cos(th), -jnp.sin(th)], [jnp.sin(th), jnp.cos(th)]])
        return links[1] * jnp.array([jnp.cos(crank), jnp.sin(crank)]) + rot @ tip

    return jax.vmap(one)(cranks)


def _body_rates(wheels, track):
    return 0.5 * (wheels[..., 0] + wheels[..., 1]), (wheels[..., 1] - wheels[..., 0]) / track


@partial(jax.custom_vjp, nondiff_argnames=("dt", "midpoint"))
def drive_poses(start, wheels, track, dt=0.05, midpoint=False):
    """Dead-reckoned poses of a differential-drive base.

    start (3,) is x, y, heading; wheels (T, 2) left and right rim speeds; track
    () the distance between them. Returns the (T, 3) poses after each step. With
    `midpoint` the base moves along its heading at the middle of the step.
    """
    return _drive_fwd(start, wheels, track, dt, midpoint)[0]


def _drive_fwd(start, wheels, track, dt, midpoint):
    speed, turn = _body_rates(wheels, track)

    def step(pose, u):
        v, w = u
        x, y, th = pose
        along = th + 0.5 * dt * w if midpoint else th
        pose = jnp.stack([x + dt * v * jnp.cos(along), y + dt * v * jnp.sin(along), th + dt * w])
        return pose, (pose, along)

    _, (poses, along) = lax.scan(step, start, (speed, turn))
    return poses, (along, speed, turn, track)


def _drive_bwd(dt, midpoint, res, g):
    along, speed, turn, track = res

    def step(lam, inp):
        gt, al, v = inp
        lam = lam + gt
        g_v = dt * (lam[0] * jnp.cos(al) + lam[1] * jnp.sin(al))
        g_al = dt * v * (lam[1] * jnp.cos(al) - lam[0] * jnp.sin(al))
        g_w = dt * lam[2]
        if midpoint:
            g_w = g_w + 0.5 * dt * g_al
        return lam.at[2].add(g_al), (g_v, g_w)

    lam, (g_v, g_w) = lax.scan(step, jnp.zeros_like(g[0]), (g, along, speed), reverse=True)
    g_wheels = jnp.stack([0.5 * g_v - g_w / track, 0.5 * g_v + g_w / track], axis=-1)
    return lam, g_wheels, -jnp.sum(g_w * turn) / track


drive_poses.defvjp(_drive_fwd, _drive_bwd)


class DiffDrive:
    """Holds a calibration; `params` is {"track": (), "radius": ()}."""

    def __init__(self, *, dt=0.05, midpoint=True):
        self.dt, self.midpoint = dt, midpoint

    def rollout(self, params, start, encoder_rates):
        return drive_poses(start, params["radius"] * encoder_rates, params["track"], self.dt, self.midpoint)

    def loss(self, params, start, encoder_rates, fixes, weight=1.0):
        err = self.rollout(params, start, encoder_rates)[:, :2] - fixes
        return weight * jnp.mean(jnp.sum(err**2, axis=-1))
