"""Filters, spectra, interpolation and finite-difference operators on regular grids."""
import functools

import jax
import jax.numpy as jnp
import numpy as np


@jax.custom_vjp
def interp(x, xp, fp):
    """Piecewise linear interpolation, constant outside of the knots.

    Parameters
    ----------
    x : array, any shape
        Query points.
    xp : (K,) array
        Increasing knots.
    fp : (K,) array
        Values at the knots.
    """
    i, t, h = _bracket(x, xp)
    return (1.0 - t) * fp[i] + t * fp[i + 1]


def _bracket(x, xp):
    i = jnp.clip(jnp.searchsorted(xp, x, side="right") - 1, 0, xp.shape[0] - 2)
    h = xp[i + 1] - xp[i]
    t = jnp.clip((x - xp[i]) / h, 0.0, 1.0)
    return i, t, h


def _interp_fwd(x, xp, fp):
    return interp(x, xp, fp), (x, xp, fp)


def _interp_bwd(res, g):
    x, xp, fp = res
    i, t, h = _bracket(x, xp)
    inside = (x >= xp[0]) & (x <= xp[-1])
    slope = jnp.where(inside, (fp[i + 1] - fp[i]) / h, 0.0)
    gx = g * slope
    gfp = jnp.zeros_like(fp).at[i].add(g * (1.0 - t)).at[i + 1].add(g * t)
    gxp = jnp.zeros_like(xp).at[i].add(-gx * (1.0 - t)).at[i + 1].add(-gx * t)
    return gx, gxp, gfp


interp.defvjp(_interp_fwd, _interp_bwd)


# ------------------------------------------------------------------------------ FIR

def _taps(x, K, left):
    """Windows x[t - left + k], k = 0..K-1, zero outside. (B, T) -> (B, T, K)"""
    T = x.shape[-1]
    xpad = jnp.pad(x, ((0, 0), (left, K - 1 - left)))
    idx = np.arange(T)[:, None] + np.arange(K)[None, :]
    return xpad[:, idx]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def fir_filter(x, h, mode="causal"):
    """Filter a batch of signals with one impulse response.

    Args:
      x: signals, (batch, time).
      h: impulse response, (taps,).
      mode: "causal" (y[t] uses x[..t]) or "same" (centred like np.convolve's "same").

    Returns:
      (batch, time)
    """
    K = h.shape[0]
    left = K - 1 if mode == "causal" else K // 2
    return _taps(x, K, left) @ h[::-1]


def _fir_fwd(x, h, mode):
    return fir_filter(x, h, mode), (x, h)


def _fir_bwd(mode, res, g):
    x, h = res
    K = h.shape[0]
    left = K - 1 if mode == "causal" else K // 2
    right = 0 if mode == "causal" else K // 2
    gx = _taps(g, K, right) @ h
    gh = jnp.einsum("bt,btk->k", g, _taps(x, K, left))[::-1]
    return gx, gh


fir_filter.defvjp(_fir_fwd, _fir_bwd)


# ------------------------------------------------------------------------- spectrum

def periodogram(x, window):
    """One-sided periodogram of real signals.

    :param x: (..., n) samples
    :param window: (n,) taper, a constant
    :return: (..., n // 2 + 1)
    """
    n = x.shape[-1]
    scale = np.full(n // 2 + 1, 2.0)
    scale[0] = 1.0
    if n % 2 == 0:
        scale[-1] = 1.0
    scale = (scale / n).astype(x.dtype)

    @jax.custom_gradient
    def _power(x, window):
        X = jnp.fft.rfft(x * window, axis=-1)
        p = scale * (X.real**2 + X.imag**2)

        def vjp(g):
            Y = g * scale * X
            # irfft counts the inner bins twice
            Y = Y.at[..., 0].multiply(2.0)
            Y = Y.at[..., -1].multiply(2.0)
            return n * window * jnp.fft.irfft(Y, n=n, axis=-1), jnp.zeros_like(window)

        return p, vjp

    return _power(x, jax.lax.stop_gradient(window))


# ---------------------------------------------------------------------------- IIR

@jax.custom_vjp
def leaky_integrator(x, alpha, s0):
    def step(s, xt):
        s = s + alpha * (xt - s)
        return s, s
    _, ys = jax.lax.scan(step, s0, x)
    return ys


def _li_fwd(x, alpha, s0):
    # x (time, batch, channels), alpha (channels,), s0 (batch, channels)
    ys = leaky_integrator(x, alpha, s0)
    return ys, (x, alpha, s0, ys)


def _li_bwd(res, g):
    x, alpha, s0, ys = res
    prev = jnp.concatenate([s0[None], ys[:-1]])

    def step(lam, gt):
        lam = lam + gt
        return (1.0 - alpha) * lam, lam

    gs0, lam = jax.lax.scan(step, jnp.zeros_like(s0), g, reverse=True)
    return alpha * lam, jnp.sum(lam * (x - prev), axis=(0, 1)), gs0


leaky_integrator.defvjp(_li_fwd, _li_bwd)


# ------------------------------------------------------------------------ advection

@jax.custom_vjp
def upwind_step(u, courant):
    # u (batch, n) on a ring, courant (n,) = velocity * dt / dx at the cells, |courant| <= 1
    back = u - jnp.roll(u, 1, -1)
    ahead = jnp.roll(u, -1, -1) - u
    return u - jnp.maximum(courant, 0.0) * back - jnp.minimum(courant, 0.0) * ahead


def _upwind_fwd(u, courant):
    return upwind_step(u, courant), (u, courant)


def _upwind_bwd(res, g):
    u, courant = res
    back = u - jnp.roll(u, 1, -1)
    ahead = jnp.roll(u, -1, -1) - u
    flux = courant * g
    gu = g - flux + jnp.roll(flux, -1, -1)
    gc = -jnp.sum(g * jnp.where(courant > 0, back, ahead), axis=0)
    return gu, gc


upwind_step.defvjp(_upwind_fwd, _upwind_bwd)


def advect(u, velocity, dt, dx, steps):
    c = velocity * dt / dx
    for _ in range(steps):
        u = upwind_step(u, c)
    return u


# ------------------------------------------------------------------------ Laplacian

def laplacian(u, spacing=(1.0, 1.0), bc="periodic"):
    """Five-point Laplacian of a field ``u`` (ny, nx) with grid spacing (dy, dx).

    bc is "periodic", "dirichlet" (zero outside) or "neumann" (edge value repeated).
    """
    pad = {"periodic": "wrap", "dirichlet": "constant", "neumann": "edge"}[bc]

    def apply(v):
        out = jnp.zeros_like(v)
        for axis, h in enumerate(spacing):
            width = [(0, 0), (0, 0)]
            width[axis] = (1, 1)
            p = jnp.pad(v, width, mode=pad)
            lo = jax.lax.slice_in_dim(p, 0, v.shape[axis], axis=axis)
            hi = jax.lax.slice_in_dim(p, 2, v.shape[axis] + 2, axis=axis)
            out = out + (lo - 2.0 * v + hi) / h**2
        return out

    @jax.custom_gradient
    def _lap(v):
        # symmetric operator for each of the boundary conditions
        return apply(v), apply

    return _lap(u)
