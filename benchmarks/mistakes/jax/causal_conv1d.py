"""Causal FIR filter, y[t] = sum_k taps[k] * x[t - k]."""
import jax
import jax.numpy as jnp


def _filter(x, taps):
    T, K = x.shape[0], taps.shape[0]
    y = jnp.zeros_like(x)
    for k in range(K):
        y = y + taps[k] * jnp.pad(x[: T - k], (k, 0))
    return y


@jax.custom_vjp
def causal_conv1d(x, taps):
    """x: (time,), taps: (K,) with K <= time. Returns (time,)."""
    return _filter(x, taps)


def causal_conv1d_fwd(x, taps):
    return _filter(x, taps), (x, taps)


def causal_conv1d_bwd(res, ct):
    x, taps = res
    T, K = x.shape[0], taps.shape[0]
    ct_x = jnp.zeros_like(x)
    for k in range(K - 1):
        ct_x = ct_x + taps[k] * jnp.pad(ct[k:], (0, k))
    ct_taps = jnp.stack([jnp.dot(ct[k:], x[: T - k]) for k in range(K)])
    return ct_x, ct_taps


causal_conv1d.defvjp(causal_conv1d_fwd, causal_conv1d_bwd)
