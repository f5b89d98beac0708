"""Small differentiable DSP blocks."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import i0e, i1e


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def autocorr(x: jax.Array, max_lag: int, biased: bool = True) -> jax.Array:
    """Autocorrelation of (..., T) at lags 0..max_lag, divided by T, or by T - lag if not biased."""
    n = x.shape[-1]
    lags = [jnp.sum(x[..., : n - k] * x[..., k:], axis=-1) for k in range(max_lag + 1)]
    norm = np.full(max_lag + 1, n) if biased else n - np.arange(max_lag + 1)
    return jnp.stack(lags, axis=-1) / norm.astype(x.dtype)


def _autocorr_fwd(x, max_lag, biased):
    return autocorr(x, max_lag, biased), x


def _autocorr_bwd(max_lag, biased, x, g):
    n = x.shape[-1]
    g = g / n
    dx = jnp.zeros_like(x)
    for k in range(max_lag + 1):
        gk = g[..., k : k + 1]
        dx = dx.at[..., : n - k].add(gk * x[..., k:])
        dx = dx.at[..., k:].add(gk * x[..., : n - k])
    return (dx,)


autocorr.defvjp(_autocorr_fwd, _autocorr_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(1,))
def kaiser_taps(beta: jax.Array, n: int) -> jax.Array:
    """Symmetric Kaiser window with a learnable shape parameter.

    ``w[k] = I0(beta * sqrt(1 - u[k]**2)) / I0(beta)`` with ``u`` running from -1 to 1 over the taps. The
    exponentially scaled Bessel functions are used throughout, so large ``beta`` doesn't overflow. The
    derivative uses ``I0' = I1``.

    Args:
      beta: scalar, non-negative. 0 gives the rectangular window.
      n: number of taps, at least 2.

    Returns:
      Window of shape (n,), with its largest value 1 at the centre if n is odd.
    """
    s = _arch(n, beta.dtype)
    return jnp.exp(jnp.abs(beta) * (s - 1.0)) * i0e(beta * s) / i0e(beta)


def _arch(n, dtype):
    u = np.linspace(-1.0, 1.0, n)
    return jnp.asarray(np.sqrt(np.maximum(1.0 - u * u, 0.0)), dtype)


@kaiser_taps.defjvp
def _kaiser_jvp(n, primals, tangents):
    (beta,), (beta_dot,) = primals, tangents
    s = _arch(n, beta.dtype)
    decay = jnp.exp(jnp.abs(beta) * (s - 1.0)) / i0e(beta)
    w = decay * i0e(beta * s)
    slope = decay * s * i1e(beta * s) - w * i1e(beta) / i0e(beta)
    return w, slope * beta_dot


def make_dc_blocker(unroll=1):
    def run(x, r, state):
        def tick(carry, xt):
            x1, y1 = carry
            y = xt - x1 + r * y1
            return (xt, y), y

        state, ys = jax.lax.scan(tick, state, jnp.moveaxis(x, -1, 0), unroll=unroll)
        return jnp.moveaxis(ys, 0, -1), state

    @jax.custom_vjp
    def block(x, r, state):
        return run(x, r, state)

    def fwd(x, r, state):
        y, out = run(x, r, state)
        return (y, out), (y, r, state)

    def bwd(res, cts):
        y, r, (_, y0) = res
        gy, (gx_last, _) = cts

        def tick(carry, gt):
            lam = gt + r * carry
            return lam, lam

        first, lams = jax.lax.scan(
            tick, jnp.zeros_like(y0), jnp.moveaxis(gy, -1, 0), reverse=True, unroll=unroll
        )
        lams = jnp.moveaxis(lams, 0, -1)
        y_prev = jnp.concatenate([y0[..., None], y[..., :-1]], axis=-1)
        dx = lams - jnp.concatenate([lams[..., 1:], jnp.zeros_like(lams[..., :1])], axis=-1)
        dx = dx.at[..., -1].add(gx_last)
        return dx, jnp.sum(lams * y_prev), (-first, r * first)

    block.defvjp(fwd, bwd)
    return block


dc_block = make_dc_blocker()


def stream(chunks, r, batch=()):
    state = (jnp.zeros(batch), jnp.zeros(batch))
    out = []
    for c in chunks:
        y, state = dc_block(c, r, state)
        out.append(y)
    return jnp.concatenate(out, axis=-1)
