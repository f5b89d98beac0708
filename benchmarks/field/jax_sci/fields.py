# Operations on sampled fields: interpolation, spectral tools, transport, optics.
import functools

import flax.linen as nn
import jax
import jax.numpy as jnp


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def interp_uniform(values, x, x0=0.0, dx=1.0):
    """Linear interpolation in a table on a uniform grid.

    Parameters
    ----------
    values : (n,) table, the value at ``x0 + i * dx``
    x : (m,) query points inside the table
    x0, dx : float, static

    Returns
    -------
    (m,)
    """
    i, w = _locate(values, x, x0, dx)
    return (1.0 - w) * values[i] + w * values[i + 1]


def _locate(values, x, x0, dx):
    s = (x - x0) / dx
    i = jnp.clip(jnp.floor(s).astype(jnp.int32), 0, values.shape[0] - 2)
    return i, s - i


def _interp_fwd(values, x, x0, dx):
    return interp_uniform(values, x, x0, dx), (values, x)


def _interp_bwd(x0, dx, res, g):
    values, x = res
    i, w = _locate(values, x, x0, dx)
    gv = jnp.zeros_like(values).at[i].add(g * (1.0 - w)).at[i + 1].add(g * w)
    return gv, g * (values[i + 1] - values[i])


interp_uniform.defvjp(_interp_fwd, _interp_bwd)


def _corners(field, coords, periodic):
    h, w = field.shape[:2]
    y, x = coords[:, 0], coords[:, 1]
    if not periodic:
        y, x = jnp.clip(y, 0, h - 1), jnp.clip(x, 0, w - 1)
    y0, x0 = jnp.floor(y), jnp.floor(x)
    fy, fx = y - y0, x - x0
    y0, x0 = y0.astype(jnp.int32), x0.astype(jnp.int32)
    if periodic:
        ys, xs = (y0 % h, (y0 + 1) % h), (x0 % w, (x0 + 1) % w)
    else:
        ys, xs = (y0, jnp.minimum(y0 + 1, h - 1)), (x0, jnp.minimum(x0 + 1, w - 1))
    return ys, xs, fy[:, None], fx[:, None]


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def bilinear_sample(field, coords, periodic=True):
    """Sample a field at fractional positions.

    Args:
      field: 'h w c' array.
      coords: 'n 2' array of (row, column), in grid units.
      periodic: wrap around; otherwise positions are clamped to the grid.

    Returns:
      'n c' array.
    """
    (ya, yb), (xa, xb), fy, fx = _corners(field, coords, periodic)
    top = (1 - fx) * field[ya, xa] + fx * field[ya, xb]
    bot = (1 - fx) * field[yb, xa] + fx * field[yb, xb]
    return (1 - fy) * top + fy * bot


def _bilinear_fwd(field, coords, periodic):
    return bilinear_sample(field, coords, periodic), (field, coords)


def _bilinear_bwd(periodic, res, g):
    field, coords = res
    (ya, yb), (xa, xb), fy, fx = _corners(field, coords, periodic)
    gf = jnp.zeros_like(field)
    for yi, wy in ((ya, 1 - fy), (yb, fy)):
        for xi, wx in ((xa, 1 - fx), (xb, fx)):
            gf = gf.at[yi, xi].add(g * wy * wx)
    aa, ab, ba, bb = field[ya, xa], field[ya, xb], field[yb, xa], field[yb, xb]
    gy = jnp.sum(g * ((1 - fx) * (ba - aa) + fx * (bb - ab)), axis=1)
    gx = jnp.sum(g * ((1 - fy) * (ab - aa) + fy * (bb - ba)), axis=1)
    gc = jnp.stack([gy, gx], axis=1)
    if not periodic:
        top = jnp.array(field.shape[:2], coords.dtype) - 1
        gc = jnp.where((coords >= 0) & (coords <= top), gc, 0.0)
    return gf, gc


bilinear_sample.defvjp(_bilinear_fwd, _bilinear_bwd)


def spectral_derivative(u, length, order=2):
    """Derivative of a periodic signal along its last axis, by FFT.

    :param u: samples, ``(..., n)``
    :param length: period of the domain (float)
    :param order: order of the derivative
    """
    n = u.shape[-1]
    ik = 2j * jnp.pi * jnp.fft.rfftfreq(n, d=length / n)
    symbol = ik ** order
    if order % 2 and n % 2 == 0:
        symbol = symbol.at[-1].set(0.0)

    def apply(v):
        return jnp.fft.irfft(symbol * jnp.fft.rfft(v), n=n)

    @jax.custom_gradient
    def op(v):
        return apply(v), apply

    return op(u)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def fft_convolve(signal, kernel, mode="full"):
    """Convolve traces with one kernel. mode: 'full' or 'same'."""
    return _conv(signal, kernel, mode)


def _conv(signal, kernel, mode):
    t, k = signal.shape[-1], kernel.shape[-1]
    n = t + k - 1
    out = jnp.fft.irfft(jnp.fft.rfft(signal, n) * jnp.fft.rfft(kernel, n), n)
    if mode == "same":
        start = (k - 1) // 2
        out = out[..., start:start + t]
    return out


def _fftconv_fwd(signal, kernel, mode):
    return _conv(signal, kernel, mode), (signal, kernel)


def _fftconv_bwd(mode, res, g):
    signal, kernel = res
    t, k = signal.shape[-1], kernel.shape[-1]
    n = t + k - 1
    if mode == "same":
        start = (k - 1) // 2
        g = jnp.pad(g, [(0, 0)] * (g.ndim - 1) + [(start, k - 1 - start)])
    gf = jnp.fft.rfft(g, n)
    gs = jnp.fft.irfft(gf * jnp.conj(jnp.fft.rfft(kernel, n)), n)[..., :t]
    cross = (gf * jnp.conj(jnp.fft.rfft(signal, n))).reshape(-1, gf.shape[-1]).sum(0)
    return gs, jnp.fft.irfft(cross, n)[:k]


fft_convolve.defvjp(_fftconv_fwd, _fftconv_bwd)


@functools.partial(jax.custom_jvp, nondiff_argnums=(2, 3))
def upwind_step(u, velocity, dt, dx):
    """One first-order upwind step of ``u_t + (v u)_x = 0`` on a periodic grid.

    Args:
        u: cell averages, ``(n,)``.
        velocity: face velocities, ``(n,)``; entry ``i`` lives between cells ``i`` and ``i + 1``.
        dt, dx: floats (static).
    """
    flux = jnp.maximum(velocity, 0.0) * u + jnp.minimum(velocity, 0.0) * jnp.roll(u, -1)
    return u - dt / dx * (flux - jnp.roll(flux, 1))


@upwind_step.defjvp
def _upwind_jvp(dt, dx, primals, tangents):
    u, velocity = primals
    du, dv = tangents
    dflux = (jnp.maximum(velocity, 0.0) * du + jnp.minimum(velocity, 0.0) * jnp.roll(du, -1)
             + dv * u)
    return upwind_step(u, velocity, dt, dx), du - dt / dx * (dflux - jnp.roll(dflux, 1))


@functools.partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def logcumsumexp(x, axis=-1, reverse=False):
    """Cumulative logsumexp along ``axis`` (from the end if ``reverse``)."""
    return jax.lax.associative_scan(jnp.logaddexp, x, axis=axis % x.ndim, reverse=reverse)


def _lcse_fwd(x, axis, reverse):
    y = logcumsumexp(x, axis, reverse)
    return y, (x, y)


def _lcse_bwd(axis, reverse, res, g):
    x, y = res
    top = x.max(axis=axis, keepdims=True)
    h = g * jnp.exp(top - y)
    tail = jnp.flip(jnp.cumsum(jnp.flip(h, axis), axis=axis), axis)
    return (jnp.exp(x - top) * tail,)


logcumsumexp.defvjp(_lcse_fwd, _lcse_bwd)


@jax.custom_vjp
def apply_phase(wave, phase):
    # wave: complex (h, w), phase: real (h, w)
    return wave * jnp.exp(1j * phase)


def _phase_fwd(wave, phase):
    out = apply_phase(wave, phase)
    return out, (phase, out)


def _phase_bwd(res, g):
    phase, out = res
    g_wave = g * jnp.exp(-1j * phase)
    g_phase = jnp.real(1j * g * out)
    return g_wave, g_phase


apply_phase.defvjp(_phase_fwd, _phase_bwd)


class PhasePlate(nn.Module):
    """Trainable phase plate followed by propagation to the far field."""

    shape: tuple

    @nn.compact
    def __call__(self, wave):
        phase = self.param("phase", nn.initializers.zeros, self.shape)
        return jnp.abs(jnp.fft.fft2(apply_phase(wave, phase), norm="ortho")) ** 2
