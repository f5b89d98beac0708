"""Tuning and voicing a kalimba.

A tine is a clamped strip whose pitch is lowered with a blob of wax at its tip.  The bench fits wax and damping to
recordings, so everything here can be differentiated.
"""
from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

BRACKETS = {1: (1e-2, 1.8752), 2: (3.926, 4.6942)}


@dataclass(frozen=True)
class Tine:
    length: float = 0.055       # m, free end
    thickness: float = 1.1e-3   # m
    wave_speed: float = 5050.0  # m/s, sqrt(E / rho) of spring steel


def _characteristic(x, m):
    """Frequency equation of a cantilever with the tip mass m (in strip masses), with its two partial derivatives."""
    c, s, ch, sh = jnp.cos(x), jnp.sin(x), jnp.cosh(x), jnp.sinh(x)
    w = c * sh - s * ch
    return 1.0 + c * ch + m * x * w, w + m * (w - 2.0 * x * s * sh), x * w


def _solve_root(m, mode):
    lo, hi = (jnp.full_like(m, b) for b in BRACKETS[mode])
    rising = 1.0 if mode == 2 else -1.0
    lo, hi = jax.lax.stop_gradient((lo, hi))
    for _ in range(18):
        mid = 0.5 * (lo + hi)
        above = rising * jax.lax.stop_gradient(_characteristic(mid, m)[0]) > 0
        lo, hi = jnp.where(above, lo, mid), jnp.where(above, mid, hi)
    x = 0.5 * (lo + hi)
    for _ in range(3):
        f, fx, _ = _characteristic(x, m)
        x = x - f / fx
    return x


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def tine_root(wax, mode=1):
    """Wave number (times length) of the first or second mode for the wax ratio ``wax`` >= 0, an array of any shape."""
    return _solve_root(jnp.asarray(wax), mode)


@tine_root.defjvp
def _tine_root_jvp(mode, primals, tangents):
    (wax,), (wax_dot,) = primals, tangents
    x = tine_root(wax, mode)
    _, fx, fm = _characteristic(x, wax)
    return x, -fm / fx * wax_dot


def tine_hertz(tine: Tine, wax, mode=1):
    radius_of_gyration = tine.thickness / 12.0 ** 0.5
    return tine_root(wax, mode) ** 2 * tine.wave_speed * radius_of_gyration / (2 * jnp.pi * tine.length ** 2)


def tine_voice(times):
    """Renderer of plucked notes at the instants ``times`` (T,), in seconds.

    ``render(partials, onset)`` takes a dict of per-partial arrays (K,), "amp", "decay" (1/s; some tens for a tine muted
    by the thumb) and "omega" (rad/s), and the onsets (N,) of the notes.  It gives (N, T); a note is silent before its onset.
    """

    def _parts(partials, onset):
        u = times[None, :] - onset[:, None]
        on = (u >= 0).astype(times.dtype)[:, :, None]
        u = jnp.maximum(u, 0.0)[:, :, None]
        env = on * jnp.exp(-partials["decay"] * u)
        return u, env, jnp.sin(partials["omega"] * u), jnp.cos(partials["omega"] * u)

    @jax.custom_vjp
    def render(partials, onset):
        _, env, sine, _ = _parts(partials, onset)
        return jnp.sum(partials["amp"] * env * sine, axis=-1)

    def fwd(partials, onset):
        return render(partials, onset), (partials, onset)

    def bwd(res, g):
        partials, onset = res
        u, env, sine, cosine = _parts(partials, onset)
        amp, omega = partials["amp"], partials["omega"]
        ge = g[:, :, None] * env
        grads = {
            "amp": jnp.sum(ge * sine, axis=(0, 1)),
            "decay": -jnp.sum(ge * amp * u * sine, axis=(0, 1)),
            "omega": jnp.sum(ge * amp * u * cosine, axis=(0, 1)),
        }
        return grads, -jnp.sum(ge * amp * omega * cosine, axis=(1, 2))

    render.defvjp(fwd, bwd)
    return render


def _frames(n, width, hop):
    starts = jnp.arange(0, n - width + 1, hop)
    return starts[:, None] + jnp.arange(width)[None, :]


def _window_power(width, dtype):
    w = jnp.sin(jnp.pi * (jnp.arange(width, dtype=dtype) + 0.5) / width) ** 2
    return w / jnp.sum(w)


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def buzz_rms(signal, width, hop):
    """Windowed RMS level of the buzzers' channel.

    Parameters
    ----------
    signal : array (..., samples)
    width, hop : int
        Frame length and step. Frames may overlap or leave gaps; an incomplete last frame is dropped.

    Returns
    -------
    array (..., frames)
    """
    chunk = signal[..., _frames(signal.shape[-1], width, hop)]
    return jnp.sqrt(jnp.sum(chunk ** 2 * _window_power(width, signal.dtype), axis=-1) + 1e-8)


def _buzz_fwd(signal, width, hop):
    level = buzz_rms(signal, width, hop)
    return level, (signal, level)


def _buzz_bwd(width, hop, res, g):
    signal, level = res
    index = _frames(signal.shape[-1], width, hop)
    parts = (g / level)[..., None] * signal[..., index] * _window_power(width, signal.dtype)
    return (jnp.zeros_like(signal).at[..., index].add(parts),)


buzz_rms.defvjp(_buzz_fwd, _buzz_bwd)


def main():
    for wax in (0.0, 0.1, 0.5):
        print(f"wax {wax:4.1f}: {float(tine_hertz(Tine(), jnp.array(wax))):7.1f} Hz")


if __name__ == "__main__":
    main()
