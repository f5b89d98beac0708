"""
State-space layers and classical filters
========================================

Sections
    1. diagonal linear recurrence (gated, per channel)
    2. zero-order-hold discretisation of a diagonal SSM
    3. causal depthwise convolution
    4. biquad sections
    5. innovations likelihood of a Kalman filter

All sequence arrays are (batch, time, channels) unless a function says otherwise.
"""
import math
import typing as tp

import jax
import jax.numpy as jnp
from jax import lax


# ----------------------------------------------------------------------------
# 1. recurrence
# ----------------------------------------------------------------------------
def _scan_time(decay, drive, h0, reverse=False):
    """Runs h <- decay * h + drive along axis 1."""
    def step(h, inp):
        a, x = inp
        h = a * h + x
        return h, h

    time_major = (jnp.swapaxes(decay, 0, 1), jnp.swapaxes(drive, 0, 1))
    last, hs = lax.scan(step, h0, time_major, reverse=reverse)
    return jnp.swapaxes(hs, 0, 1), last


@jax.custom_vjp
def linear_recurrence(decay, drive, h0):
    """``h[t] = decay[t] * h[t-1] + drive[t]``, started from ``h0``.

    Returns all states (B, T, C) and the last one (B, C), which seeds the next chunk.
    """
    return _scan_time(decay, drive, h0)


def _lr_fwd(decay, drive, h0):
    states, last = _scan_time(decay, drive, h0)
    return (states, last), (decay, states)


def _lr_bwd(res, ct):
    decay, states = res
    g_states, g_last = ct
    g_states = g_states.at[:, -1].add(g_last)
    # adjoint recurrence: lam[t] = g[t] + decay[t+1] * lam[t+1]
    next_decay = jnp.concatenate([decay[:, 1:], jnp.zeros_like(decay[:, :1])], axis=1)
    lam, _ = _scan_time(next_decay, g_states, jnp.zeros_like(g_last), reverse=True)
    return lam * states, lam, decay[:, 0] * lam[:, 0]


linear_recurrence.defvjp(_lr_fwd, _lr_bwd)


# ----------------------------------------------------------------------------
# 2. discretisation
# ----------------------------------------------------------------------------
_SERIES_BELOW = 0.05


def _phi(z):
    """(exp(z) - 1) / z and its derivative, without cancellation near zero."""
    small = jnp.abs(z) < _SERIES_BELOW
    zs = jnp.where(small, 1.0, z)
    phi = jnp.where(small, 1 + z / 2 * (1 + z / 3 * (1 + z / 4 * (1 + z / 5 * (1 + z / 6)))),
                    jnp.expm1(zs) / zs)
    series = 0.5 + z / 3 + z**2 / 8 + z**3 / 30 + z**4 / 144 + z**5 / 840
    dphi = jnp.where(small, series, (jnp.exp(zs) - jnp.expm1(zs) / zs) / zs)
    return phi, dphi


def _zoh(delta, a, b):
    z = delta[:, :, None] * a
    return jnp.exp(z), delta[:, :, None] * _phi(z)[0] * b[:, None, :]


zoh_discretize = jax.custom_vjp(_zoh)
zoh_discretize.__doc__ = """Zero-order hold for ``x' = a x + b u`` with diagonal ``a``.

delta (T, D) step sizes, a (D, N) poles (zero allowed), b (T, N) input gains;
gives ``a_bar`` and ``b_bar``, both (T, D, N).
"""


def _zoh_bwd(res, ct):
    delta, a, b = res
    g_abar, g_bbar = ct
    step = delta[:, :, None]
    z = step * a
    phi, dphi = _phi(z)
    gain = b[:, None, :]
    g_z = g_abar * jnp.exp(z) + g_bbar * step * gain * dphi
    g_delta = jnp.sum(g_z * a + g_bbar * phi * gain, axis=2)
    g_a = jnp.sum(g_z * step, axis=0)
    g_b = jnp.sum(g_bbar * step * phi, axis=1)
    return g_delta, g_a, g_b


zoh_discretize.defvjp(lambda *args: (_zoh(*args), args), _zoh_bwd)


# ----------------------------------------------------------------------------
# 3. convolution
# ----------------------------------------------------------------------------
def _delay(x, n):
    """x delayed by n steps, zeros shifted in."""
    if n == 0:
        return x
    n = min(n, x.shape[1])
    return jnp.pad(x, ((0, 0), (n, 0), (0, 0)))[:, : x.shape[1]]


def _advance(x, n):
    return jnp.flip(_delay(jnp.flip(x, 1), n), 1)


class CausalConv1d:
    """Depthwise causal convolution, y[t] = sum_k w[k] * x[t - k * dilation]."""

    def __init__(self, channels: int, width: int = 4, dilation: int = 1):
        self.channels = channels
        self.width = width
        self.dilation = dilation

    def init(self, key) -> tp.Dict[str, jax.Array]:
        bound = 1.0 / math.sqrt(self.width)
        return {"w": jax.random.uniform(key, (self.width, self.channels), minval=-bound, maxval=bound),
                "bias": jnp.zeros(self.channels)}

    def __call__(self, params, x):
        @jax.custom_gradient
        def conv(params, x):
            taps = [_delay(x, k * self.dilation) for k in range(self.width)]
            y = params["bias"] + sum(params["w"][k] * tap for k, tap in enumerate(taps))

            def vjp(g):
                g_w = jnp.stack([jnp.sum(g * tap, axis=(0, 1)) for tap in taps])
                g_x = sum(params["w"][k] * _advance(g, k) for k in range(self.width))
                return {"w": g_w, "bias": jnp.sum(g, axis=(0, 1))}, g_x

            return y, vjp

        return conv(params, x)


# ----------------------------------------------------------------------------
# 4. biquads
# ----------------------------------------------------------------------------
class Biquad(tp.NamedTuple):
    b: jax.Array   # (3,)  b0, b1, b2
    a: jax.Array   # (2,)  a1, a2;  a0 is one


def _all_pole(a, x):
    """y[t] = x[t] - a1 y[t-1] - a2 y[t-2] along the last axis, from rest."""
    def step(carry, x_t):
        y1, y2 = carry
        y = x_t - a[0] * y1 - a[1] * y2
        return (y, y1), y

    zero = jnp.zeros(x.shape[:-1], x.dtype)
    _, y = lax.scan(step, (zero, zero), jnp.moveaxis(x, -1, 0))
    return jnp.moveaxis(y, 0, -1)


def _lag(x, n):
    return x if n == 0 else jnp.concatenate([jnp.zeros_like(x[..., :n]), x[..., :-n]], axis=-1)


@jax.custom_vjp
def biquad(coef: Biquad, x):
    """Second-order section on a signal (..., T)."""
    return _all_pole(coef.a, sum(coef.b[k] * _lag(x, k) for k in range(3)))


def _biquad_fwd(coef, x):
    y = biquad(coef, x)
    return y, (coef, x, y)


def _biquad_bwd(res, g):
    coef, x, y = res
    # run the recursive part backwards in time
    s = jnp.flip(_all_pole(coef.a, jnp.flip(g, -1)), -1)
    s_rev = jnp.flip(s, -1)
    g_x = jnp.flip(sum(coef.b[k] * _lag(s_rev, k) for k in range(3)), -1)
    g_b = jnp.stack([jnp.sum(s * _lag(x, k)) for k in range(3)])
    g_a = jnp.stack([-jnp.sum(s * _lag(y, k)) for k in (1, 2)])
    return Biquad(g_b, g_a), g_x


biquad.defvjp(_biquad_fwd, _biquad_bwd)


# ----------------------------------------------------------------------------
# 5. likelihood
# ----------------------------------------------------------------------------
def _gaussian_parts(innov, cov, observed):
    m = observed.astype(innov.dtype)
    v = m * innov
    eye = jnp.eye(innov.shape[-1], dtype=innov.dtype)
    both = m[:, :, None] * m[:, None, :]
    # rows and columns of missing channels become those of the identity
    s = both * 0.5 * (cov + jnp.swapaxes(cov, -1, -2)) + eye * (1.0 - m)[:, None, :]
    return m, v, both, jnp.linalg.cholesky(s)


@jax.custom_vjp
def innovation_loglik(innov, cov, observed):
    """Log density of N(0, cov) at innov, per step.

    innov (T, m), cov (T, m, m) symmetric positive definite, observed (T, m) bool; channels that
    were not observed are marginalised out.
    """
    m, v, _, chol = _gaussian_parts(innov, cov, observed)
    white = jax.scipy.linalg.solve_triangular(chol, v[..., None], lower=True)[..., 0]
    logdet = 2.0 * jnp.sum(jnp.log(jnp.diagonal(chol, axis1=-2, axis2=-1)), axis=-1)
    return -0.5 * (jnp.sum(white**2, axis=-1) + logdet + jnp.sum(m, axis=-1) * math.log(2 * math.pi))


def _loglik_fwd(innov, cov, observed):
    return innovation_loglik(innov, cov, observed), (innov, cov, observed)


def _loglik_bwd(res, g):
    m, v, both, chol = _gaussian_parts(*res)
    eye = jnp.broadcast_to(jnp.eye(v.shape[-1], dtype=v.dtype), chol.shape)
    prec = jax.vmap(lambda l, b: jax.scipy.linalg.cho_solve((l, True), b))(chol, eye)
    alpha = jnp.einsum("tij,tj->ti", prec, v)
    g_cov = 0.5 * g[:, None, None] * both * (alpha[:, :, None] * alpha[:, None, :] - prec)
    return -g[:, None] * m * alpha, g_cov, None


innovation_loglik.defvjp(_loglik_fwd, _loglik_bwd)


# ----------------------------------------------------------------------------
def selective_block(params, u):
    """One S6-like mixer for a single sequence u (T, D), chunk state thrown away."""
    conv = CausalConv1d(u.shape[1], width=params["conv"]["w"].shape[0], dilation=1)
    x = jax.nn.silu(conv(params["conv"], u[None]))[0]
    delta = jax.nn.softplus(x @ params["w_delta"])
    a_bar, b_bar = zoh_discretize(delta, -jnp.exp(params["log_a"]), x @ params["w_b"])
    t, d, n = a_bar.shape
    drive = (b_bar * x[:, :, None]).reshape(1, t, d * n)
    h, _ = linear_recurrence(a_bar.reshape(1, t, d * n), drive, jnp.zeros((1, d * n)))
    return jnp.einsum("tdn,tn->td", h.reshape(t, d, n), x @ params["w_c"])
