from __future__ import annotations

import functools
from typing import Any, Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _fade(t):
    return t * t * t * (t * (t * 6.0 - 15.0) + 10.0)


def _fade_slope(t):
    return 30.0 * t * t * (t - 1.0) ** 2


class NoiseField:
    def __init__(self, seed: int = 0, size: int = 64):
        self.size = size
        self.table = np.random.RandomState(seed).permutation(size)

    def init(self, key):
        return jax.random.uniform(key, (self.size,), minval=-1.0, maxval=1.0)

    def _corners(self, xy):
        table = jnp.asarray(self.table)
        base = jnp.floor(xy)
        t = xy - base
        i = base.astype(jnp.int32)

        def slot(dx, dy):
            return table[(table[(i[..., 0] + dx) % self.size] + i[..., 1] + dy) % self.size]

        ids = jnp.stack([slot(0, 0), slot(1, 0), slot(0, 1), slot(1, 1)], axis=-1)
        return ids, t

    @functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
    def _value(self, lattice, xy):
        ids, t = self._corners(xy)
        v = lattice[ids]
        u, w = _fade(t[..., 0]), _fade(t[..., 1])
        near = v[..., 0] + u * (v[..., 1] - v[..., 0])
        far = v[..., 2] + u * (v[..., 3] - v[..., 2])
        return near + w * (far - near)

    def _value_fwd(self, lattice, xy):
        return NoiseField._value(self, lattice, xy), (lattice, xy)

    def _value_bwd(self, res, g):
        lattice, xy = res
        ids, t = self._corners(xy)
        v = lattice[ids]
        u, w = _fade(t[..., 0]), _fade(t[..., 1])
        blend = jnp.stack([(1 - u) * (1 - w), u * (1 - w), (1 - u) * w, u * w], axis=-1)
        d_lattice = jnp.zeros_like(lattice).at[ids].add(g[..., None] * blend)
        along_x = (1 - w) * (v[..., 1] - v[..., 0]) + w * (v[..., 3] - v[..., 2])
        along_y = (1 - u) * (v[..., 2] - v[..., 0]) + u * (v[..., 3] - v[..., 1])
        d_xy = g[..., None] * jnp.stack([along_x, along_y], axis=-1) * _fade_slope(t)
        return d_lattice, d_xy

    _value.defvjp(_value_fwd, _value_bwd)

    def sample(self, lattice, xy):
        return NoiseField._value(self, lattice, xy)

    def fractal(self, lattice, xy, octaves=4, gain=0.5, lacunarity=2.0):
        out = jnp.zeros(xy.shape[:-1], lattice.dtype)
        for k in range(octaves):
            out = out + gain**k * self.sample(lattice, xy * lacunarity**k)
        return out


def _pad(image, reach, mode):
    if mode not in ("edge", "constant"):
        raise ValueError(mode)
    ph, pw = reach
    width = [(0, 0)] * (image.ndim - 2) + [(ph, ph), (pw, pw)]
    return jnp.pad(image, width, mode=mode)


def _unpad(g, reach, mode):
    ph, pw = reach
    h, w = g.shape[-2] - 2 * ph, g.shape[-1] - 2 * pw
    rows, cols = slice(ph, ph + h), slice(pw, pw + w)
    core = g[..., rows, cols]
    if mode == "edge":
        core = core.at[..., 0, :].add(g[..., :ph, cols].sum(axis=-2))
        core = core.at[..., -1, :].add(g[..., ph + h :, cols].sum(axis=-2))
        core = core.at[..., :, 0].add(g[..., rows, :pw].sum(axis=-1))
        core = core.at[..., :, -1].add(g[..., rows, pw + w :].sum(axis=-1))
    return core


def _taps(kernel):
    kh, kw = kernel.shape
    return [(r, c) for r in range(kh) for c in range(kw)]


def _blur(image, kernel, mode):
    reach = (kernel.shape[0] // 2, kernel.shape[1] // 2)
    padded = _pad(image, reach, mode)
    h, w = image.shape[-2:]
    return sum(kernel[r, c] * padded[..., r : r + h, c : c + w] for r, c in _taps(kernel))


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def unsharp(image, kernel, amount, mode="edge"):
    return image + amount * (image - _blur(image, kernel, mode))


def _unsharp_fwd(image, kernel, amount, mode):
    return unsharp(image, kernel, amount, mode), (image, kernel, amount)


def _unsharp_bwd(mode, res, g):
    image, kernel, amount = res
    h, w = image.shape[-2:]
    reach = (kernel.shape[0] // 2, kernel.shape[1] // 2)
    padded = _pad(image, reach, mode)
    spread = jnp.zeros_like(padded)
    d_kernel = jnp.zeros_like(kernel)
    for r, c in _taps(kernel):
        spread = spread.at[..., r : r + h, c : c + w].add(kernel[r, c] * g)
        tap = jnp.sum(g * padded[..., r : r + h, c : c + w])
        d_kernel = d_kernel.at[r, c].set(-amount * tap)
    d_image = g + amount * (g - _unpad(spread, reach, mode))
    d_amount = jnp.sum(g * (image - _blur(image, kernel, mode)))
    return d_image, d_kernel, d_amount


unsharp.defvjp(_unsharp_fwd, _unsharp_bwd)


def make_tracer(sdf: Callable[[Any, jax.Array], jax.Array], steps: int = 64, far: float = 20.0):
    def along(params, origin, direction, t):
        return sdf(params, origin + t[..., None] * direction)

    def march(params, origin, direction):
        def step(_, t):
            return jnp.minimum(t + along(params, origin, direction, t), far)

        t = lax.fori_loop(0, steps, step, jnp.zeros(origin.shape[:-1], origin.dtype))
        hit = jnp.abs(along(params, origin, direction, t)) < 1e-3

        def polish(_, t):
            f, slope = jax.jvp(
                lambda s: along(params, origin, direction, s), (t,), (jnp.ones_like(t),)
            )
            return t - f / jnp.where(hit, slope, 1.0)

        t = lax.fori_loop(0, 4, polish, t)
        hit = hit & (jnp.abs(along(params, origin, direction, t)) < 2e-5)
        return jnp.where(hit, t, far), hit

    @jax.custom_vjp
    def trace(params, origin, direction):
        return march(params, origin, direction)[0]

    def fwd(params, origin, direction):
        t, hit = march(params, origin, direction)
        return t, (params, origin, direction, t, hit)

    def bwd(res, g):
        params, origin, direction, t, hit = res
        _, slope = jax.jvp(
            lambda s: along(params, origin, direction, s), (t,), (jnp.ones_like(t),)
        )
        _, pull = jax.vjp(lambda p, o, d: along(p, o, d, t), params, origin, direction)
        return pull(jnp.where(hit, -g / jnp.where(hit, slope, 1.0), 0.0))

    trace.defvjp(fwd, bwd)
    return trace


def ball_and_ground(params, point):
    centre, radius, height = params["centre"], params["radius"], params["height"]
    ball = jnp.linalg.norm(point - centre, axis=-1) - radius
    ground = point[..., 2] - height
    k = 0.1
    return -k * jnp.logaddexp(-ball / k, -ground / k)


def depth_image(params, eye, rays):
    trace = make_tracer(ball_and_ground)
    return trace(params, jnp.broadcast_to(eye, rays.shape), rays)
