"""Implicit layers and weight-only quantised products.

References: Bai et al. 2019 (equilibrium models), Peters et al. 2019 (entmax), Bertinetto et al.
2019 (ridge regression head), Dettmers et al. 2022.
"""
from functools import partial

import jax
import jax.numpy as jnp


# weight-only quantisation ------------------------------------------------------------------

def _expand(t, group_size):
    return jnp.repeat(t, group_size, axis=0)


@partial(jax.custom_vjp, nondiff_argnums=(4,))
def dequant_linear(x, qweight, scales, zeros, group_size=32):
    """``x @ W`` with group-wise quantised weights, ``W = (qweight - zeros) * scales``.

    Args:
        x: [batch, in_features] activations.
        qweight: [in_features, out_features] integer codes (int8 or uint8), frozen.
        scales: [in_features // group_size, out_features] float.
        zeros: [in_features // group_size, out_features] float zero points.
        group_size: rows of ``qweight`` that share a scale.

    The scales and zero points may be fine-tuned, so they get gradients too.
    """
    w = (qweight.astype(x.dtype) - _expand(zeros, group_size)) * _expand(scales, group_size)
    return x @ w


def _dq_fwd(x, qweight, scales, zeros, group_size):
    return dequant_linear(x, qweight, scales, zeros, group_size), (x, qweight, scales, zeros)


def _dq_bwd(group_size, res, g):
    x, qweight, scales, zeros = res
    s, z = _expand(scales, group_size), _expand(zeros, group_size)
    q = qweight.astype(x.dtype)
    dw = x.T @ g

    def per_group(t):
        return t.reshape(scales.shape[0], group_size, -1).sum(1)

    return g @ ((q - z) * s).T, None, per_group(dw * q), -per_group(dw) * scales


dequant_linear.defvjp(_dq_fwd, _dq_bwd)


# closed-form heads -------------------------------------------------------------------------

@jax.custom_vjp
def ridge_head(feats, targets, lam):
    """Ridge regression weights for few-shot heads.

    feats (n, d), targets (n, m), lam scalar > 0  ->  weights (d, m)
    """
    return _ridge_fwd(feats, targets, lam)[0]


def _ridge_fwd(feats, targets, lam):
    gram = feats.T @ feats + lam * jnp.eye(feats.shape[1], dtype=feats.dtype)
    w = jnp.linalg.solve(gram, feats.T @ targets)
    return w, (feats, targets, gram, w)


def _ridge_bwd(res, g):
    feats, targets, gram, w = res
    u = jnp.linalg.solve(gram, g)          # adjoint; gram is symmetric
    dgram = -u @ w.T
    dfeats = targets @ u.T + 2.0 * feats @ dgram
    return dfeats, feats @ u, jnp.trace(dgram)


ridge_head.defvjp(_ridge_fwd, _ridge_bwd)


# equilibrium -------------------------------------------------------------------------------

def _cell(params, x, z):
    w = params["w"] / (1.0 + jnp.sqrt(jnp.sum(params["w"] ** 2) + 1e-12))
    return jnp.tanh(0.5 * z @ w + x @ params["u"] + params["b"])


def _iterate(f, z0):
    tol = 4 * jnp.finfo(z0.dtype).eps

    def cond(c):
        z, old, i = c
        return (i < 120) & (jnp.max(jnp.abs(z - old)) > tol * (1.0 + jnp.max(jnp.abs(z))))

    def body(c):
        z, _, i = c
        return f(z), z, i + 1

    return jax.lax.while_loop(cond, body, (f(z0), z0, 0))[0]


@jax.custom_vjp
def equilibrium_layer(params, x):
    """Deep-equilibrium layer ``z = tanh(z W' / 2 + x U + b)``, with W' scaled so that the map contracts.

    params: dict with "w" (H, H), "u" (I, H), "b" (H,); x: (batch, I). Returns z of (batch, H).
    """
    z0 = jnp.zeros((x.shape[0], params["b"].shape[0]), x.dtype)
    return _iterate(lambda z: _cell(params, x, z), z0)


def _eq_fwd(params, x):
    z = equilibrium_layer(params, x)
    return z, (params, x, z)


def _eq_bwd(res, g):
    params, x, z = res
    _, pull_z = jax.vjp(lambda z: _cell(params, x, z), z)
    lam = _iterate(lambda l: g + pull_z(l)[0], jnp.zeros_like(g))
    _, pull = jax.vjp(lambda p, x: _cell(p, x, z), params, x)
    return pull(lam)


equilibrium_layer.defvjp(_eq_fwd, _eq_bwd)


# entmax ------------------------------------------------------------------------------------

@partial(jax.custom_jvp, nondiff_argnums=(1, 2))
def entmax(x, alpha=1.5, axis=-1):
    n = x.shape[axis]
    x = (alpha - 1.0) * x
    top = jnp.max(x, axis=axis, keepdims=True)
    power = 1.0 / (alpha - 1.0)
    lo, hi = top - 1.0, top - n ** (1.0 - alpha)

    def halve(_, b):
        lo, hi = b
        mid = 0.5 * (lo + hi)
        heavy = jnp.sum(jnp.maximum(x - mid, 0.0) ** power, axis=axis, keepdims=True) >= 1.0
        return jnp.where(heavy, mid, lo), jnp.where(heavy, hi, mid)

    lo, hi = jax.lax.fori_loop(0, 60, halve, (lo, hi))
    p = jnp.maximum(x - 0.5 * (lo + hi), 0.0) ** power
    return p / jnp.sum(p, axis=axis, keepdims=True)


@entmax.defjvp
def _entmax_jvp(alpha, axis, primals, tangents):
    (x,), (dx,) = primals, tangents
    p = entmax(x, alpha, axis)
    s = jnp.where(p > 0, jnp.where(p > 0, p, 1.0) ** (2.0 - alpha), 0.0)
    mean = jnp.sum(s * dx, axis=axis, keepdims=True) / jnp.sum(s, axis=axis, keepdims=True)
    return p, s * (dx - mean)


if __name__ == "__main__":
    k = jax.random.split(jax.random.PRNGKey(0), 3)
    xs, ys = jax.random.normal(k[0], (20, 3)), jax.random.normal(k[1], (20, 2))
    print(ridge_head(xs, ys, 0.1))
    print(entmax(jax.random.normal(k[2], (2, 6)), 1.5, -1))
