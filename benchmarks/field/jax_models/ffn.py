"""Feed-forward blocks as pure functions over parameter trees.

No framework here: ``init_*`` makes a tree, the function of the same name takes
it as its first argument. All blocks accept any number of leading dimensions.
The blocks store their inputs only and recompute hidden activations when
differentiated.
"""

from functools import partial
from typing import Dict, NamedTuple, Optional

import jax
import jax.numpy as jnp
from jax import random
from jax.scipy.special import erf

Params = Dict[str, Dict[str, jnp.ndarray]]

_SQRT1_2 = 0.7071067811865476
_INV_SQRT_2PI = 0.3989422804014327


def _phi(z):
    return _INV_SQRT_2PI * jnp.exp(-0.5 * z * z)


def _Phi(z):
    return 0.5 * (1.0 + erf(z * _SQRT1_2))


def _silu_grad(z):
    s = jax.nn.sigmoid(z)
    return s * (1.0 + z * (1.0 - s))


ACTIVATIONS = {
    # name: (f, f')
    "linear": (lambda z: z, jnp.ones_like),
    "relu": (jax.nn.relu, lambda z: (z > 0).astype(z.dtype)),
    "tanh": (jnp.tanh, lambda z: 1.0 - jnp.tanh(z) ** 2),
    "silu": (jax.nn.silu, _silu_grad),
}


def _flat(a):
    return a.reshape(-1, a.shape[-1])


class DenseParams(NamedTuple):
    kernel: jnp.ndarray                   # (n_in, n_out)
    bias: Optional[jnp.ndarray] = None    # (n_out,)


def init_dense(key, n_in, n_out, use_bias=True):
    w = random.normal(key, (n_in, n_out)) / jnp.sqrt(n_in)
    return DenseParams(w, jnp.zeros(n_out) if use_bias else None)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def dense(params: DenseParams, x, activation: str = "linear"):
    """``act(x @ kernel + bias)`` with act one of `ACTIVATIONS`; the bias may be None."""
    z = x @ params.kernel
    if params.bias is not None:
        z = z + params.bias
    return ACTIVATIONS[activation][0](z)


def _dense_fwd(params, x, activation):
    return dense(params, x, activation), (params, x)


def _dense_bwd(activation, res, g):
    params, x = res
    z = x @ params.kernel
    if params.bias is not None:
        z = z + params.bias
    dz = g * ACTIVATIONS[activation][1](z)
    dkernel = _flat(x).T @ _flat(dz)
    dbias = None if params.bias is None else _flat(dz).sum(0)
    return DenseParams(dkernel, dbias), dz @ params.kernel.T


dense.defvjp(_dense_fwd, _dense_bwd)


def init_mlp(key, d_model, d_hidden) -> Params:
    k1, k2 = random.split(key)
    return {
        "fc1": {"kernel": random.normal(k1, (d_model, d_hidden)) * d_model**-0.5,
                "bias": jnp.zeros(d_hidden)},
        "fc2": {"kernel": random.normal(k2, (d_hidden, d_model)) * d_hidden**-0.5,
                "bias": jnp.zeros(d_model)},
    }


@jax.custom_vjp
def mlp(params: Params, x):
    """Transformer MLP: dense, exact GELU, dense."""
    z = x @ params["fc1"]["kernel"] + params["fc1"]["bias"]
    return (z * _Phi(z)) @ params["fc2"]["kernel"] + params["fc2"]["bias"]


def _mlp_fwd(params, x):
    return mlp(params, x), (params, x)


def _mlp_bwd(res, g):
    params, x = res
    fc1, fc2 = params["fc1"], params["fc2"]
    z = x @ fc1["kernel"] + fc1["bias"]
    cdf = _Phi(z)
    h = z * cdf
    dh = g @ fc2["kernel"].T
    dz = dh * (cdf + z * _phi(z))
    x2, h2, z2, g2 = map(_flat, (x, h, dz, g))
    grads = {
        "fc1": {"kernel": x2.T @ z2, "bias": z2.sum(axis=0)},
        "fc2": {"kernel": h2.T @ g2, "bias": g2.sum(axis=0)},
    }
    return grads, dz @ fc1["kernel"].T


mlp.defvjp(_mlp_fwd, _mlp_bwd)


class GLUParams(NamedTuple):
    gate: jnp.ndarray   # (d_model, d_hidden)
    up: jnp.ndarray     # (d_model, d_hidden)
    down: jnp.ndarray   # (d_hidden, d_model)


def init_glu(key, d_model, d_hidden):
    kg, ku, kd = random.split(key, 3)
    return GLUParams(
        random.normal(kg, (d_model, d_hidden)) * d_model**-0.5,
        random.normal(ku, (d_model, d_hidden)) * d_model**-0.5,
        random.normal(kd, (d_hidden, d_model)) * d_hidden**-0.5,
    )


_GATES = {
    "swiglu": (jax.nn.silu, _silu_grad),
    "reglu": (jax.nn.relu, lambda z: (z > 0).astype(z.dtype)),
    "geglu": (lambda z: z * _Phi(z), lambda z: _Phi(z)),
}


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def glu_block(params, x, variant="swiglu"):
    """Gated feed-forward block of Shazeer (2020).

    ``(f(x @ gate) * (x @ up)) @ down``

    Args:
        params: `GLUParams`.
        x: ``(..., d_model)``.
        variant: ``"swiglu"``, ``"reglu"`` or ``"geglu"``.
    """
    f, _ = _GATES[variant]
    return (f(x @ params.gate) * (x @ params.up)) @ params.down


def _glu_fwd(params, x, variant):
    return glu_block(params, x, variant), (params, x)


def _glu_bwd(variant, res, g):
    params, x = res
    f, df = _GATES[variant]
    a, u = x @ params.gate, x @ params.up
    fa = f(a)
    dh = g @ params.down.T
    da, du = dh * u * df(a), dh * fa
    xt = _flat(x).T
    grads = GLUParams(gate=xt @ _flat(da), up=xt @ _flat(du), down=_flat(fa * u).T @ _flat(g))
    return grads, da @ params.gate.T + du @ params.up.T


glu_block.defvjp(_glu_fwd, _glu_bwd)


def init_lora(key, n_in, n_out, rank):
    kw, ka = random.split(key)
    return {
        "kernel": random.normal(kw, (n_in, n_out)) * n_in**-0.5,
        "lora_a": random.normal(ka, (n_in, rank)) * n_in**-0.5,
        "lora_b": jnp.zeros((rank, n_out)),
    }


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def lora_dense(params, x, alpha=16.0):
    """Dense layer with a low rank update, ``x W + alpha / r * (x A) B``."""
    scale = alpha / params["lora_a"].shape[1]
    return x @ params["kernel"] + scale * (x @ params["lora_a"]) @ params["lora_b"]


def _lora_fwd(params, x, alpha):
    xa = x @ params["lora_a"]
    scale = alpha / params["lora_a"].shape[1]
    return x @ params["kernel"] + scale * xa @ params["lora_b"], (params, x, xa)


def _lora_bwd(alpha, res, g):
    params, x, xa = res
    scale = alpha / params["lora_a"].shape[1]
    gb = g @ params["lora_b"].T
    grads = {
        "kernel": _flat(x).T @ _flat(g),
        "lora_a": _flat(x).T @ _flat(gb),
        "lora_b": scale * _flat(xa).T @ _flat(g),
    }
    dx = g @ params["kernel"].T + scale * gb @ params["lora_a"].T
    return grads, dx


lora_dense.defvjp(_lora_fwd, _lora_bwd)


if __name__ == "__main__":
    key = random.PRNGKey(1)
    x = random.normal(key, (2, 5, 8))
    p = init_glu(key, 8, 16)
    print(jax.tree_util.tree_map(jnp.shape, jax.grad(lambda p: glu_block(p, x).sum())(p)))
    lp = init_lora(key, 8, 4, 16)
    print(lora_dense(lp, x).shape)
