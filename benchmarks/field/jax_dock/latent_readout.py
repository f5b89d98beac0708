import math
from functools import partial

import jax
import jax.numpy as jnp


def _fit(g, ref):
    shape = jnp.shape(ref)
    lead = g.ndim - len(shape)
    axes = tuple(range(lead)) + tuple(i + lead for i, n in enumerate(shape) if n == 1)
    return g.sum(axis=axes).reshape(shape)


# ---- cross attention of a learned latent array onto a padded sequence

def _scores(q, k, bias, lengths):
    s = jnp.einsum("ld,bnd->bln", q, k) / math.sqrt(q.shape[-1]) + bias
    live = jnp.arange(k.shape[1])[None, None, :] < lengths[:, None, None]
    return jax.nn.softmax(jnp.where(live, s, -jnp.inf), axis=-1)


@jax.custom_vjp
def latent_pool(q, k, v, bias, lengths):
    return _scores(q, k, bias, lengths) @ v


def _latent_pool_fwd(q, k, v, bias, lengths):
    p = _scores(q, k, bias, lengths)
    o = p @ v
    return o, (q, k, v, p, o)


def _latent_pool_bwd(res, do):
    q, k, v, p, o = res
    dv = jnp.einsum("bln,bld->bnd", p, do)
    row = jnp.sum(do * o, axis=-1, keepdims=True)
    ds = p * (jnp.einsum("bld,bnd->bln", do, v) - row)
    c = 1.0 / math.sqrt(q.shape[-1])
    dq = c * jnp.einsum("bln,bnd->ld", ds, k)
    dk = c * jnp.einsum("bln,ld->bnd", ds, q)
    return dq, dk, dv, ds, None


latent_pool.defvjp(_latent_pool_fwd, _latent_pool_bwd)


# ---- residual with a gate that starts closed; g: (), (C,), (B, 1, 1) ...

@jax.custom_gradient
def tanh_gate(x, y, g):
    t = jnp.tanh(g)

    def back(ct):
        return ct, ct * t, _fit(ct * y * (1.0 - t * t), g)

    return x + t * y, back


# ---- locality: latents sit at anchors (L, D), tokens at positions (B, N, D) -> (B, L, N)

def _gap(anchors, pos, metric):
    d = anchors[:, None, :] - pos[:, None, :, :]
    if metric == "euclid":
        return d, jnp.sqrt(jnp.sum(d * d, axis=-1))
    if metric == "city":
        return d, jnp.sum(jnp.abs(d), axis=-1)
    if metric == "chess":
        return d, jnp.max(jnp.abs(d), axis=-1)
    raise ValueError(metric)


@partial(jax.custom_jvp, nondiff_argnums=(3,))
def locality_bias(anchors, pos, reach, metric="euclid"):
    # reach (L,) > 0; no token lies on an anchor
    return -_gap(anchors, pos, metric)[1] / reach[:, None]


@locality_bias.defjvp
def _locality_bias_jvp(metric, primals, tangents):
    anchors, pos, reach = primals
    danchors, dpos, dreach = tangents
    d, r = _gap(anchors, pos, metric)
    dd = danchors[:, None, :] - dpos[:, None, :, :]
    if metric == "euclid":
        dr = jnp.sum(d * dd, axis=-1) / r
    elif metric == "city":
        dr = jnp.sum(jnp.sign(d) * dd, axis=-1)
    else:
        top = jnp.argmax(jnp.abs(d), axis=-1, keepdims=True)
        dr = jnp.take_along_axis(dd, top, axis=-1)[..., 0]
    reach = reach[:, None]
    out = -r / reach
    return out, -(dr + out * dreach[:, None]) / reach


# ---- cosine queries

@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def unit_query(x, temperature, axis=-1, eps=1e-6):
    return temperature * x * jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)


def _unit_query_fwd(x, temperature, axis, eps):
    r = jax.lax.rsqrt(jnp.sum(x * x, axis=axis, keepdims=True) + eps)
    u = x * r
    return temperature * u, (u, r, temperature)


def _unit_query_bwd(axis, eps, res, ct):
    u, r, temperature = res
    dot = jnp.sum(ct * u, axis=-1, keepdims=True)
    return temperature * r * (ct - u * dot), _fit(ct * u, temperature)


unit_query.defvjp(_unit_query_fwd, _unit_query_bwd)


# ---- model

def init(key, *, dim=32, latents=8, coords=2, classes=10, layers=2):
    ks = jax.random.split(key, 3 + 3 * layers)
    n = lambda k, *s: jax.random.normal(k, s) / math.sqrt(s[0])
    return dict(
        latents=n(ks[0], latents, dim),
        anchors=jax.random.uniform(ks[0], (latents, coords), minval=-1.0),
        reach=jnp.ones((latents,)),
        embed=n(ks[1], coords + 3, dim),
        head=n(ks[2], dim, classes),
        layers=[
            dict(
                wk=n(ks[3 + 3 * i], dim, dim),
                wv=n(ks[4 + 3 * i], dim, dim),
                wm=n(ks[5 + 3 * i], dim, dim),
                gate=jnp.zeros((dim,)),
                temp=jnp.array(4.0),
            )
            for i in range(layers)
        ],
    )


def forward(params, pos, rgb, lengths, metric="euclid", norm_axis=-1):
    # pos (B, N, 2), rgb (B, N, 3), lengths (B,) >= 1; norm_axis 1 normalises over the tokens
    h = jnp.concatenate([pos, rgb], -1) @ params["embed"]
    bias = locality_bias(params["anchors"], pos, params["reach"], metric)
    z = 0.0
    for lyr in params["layers"]:
        k = unit_query(h @ lyr["wk"], lyr["temp"], norm_axis)
        o = latent_pool(params["latents"], k, h @ lyr["wv"], bias, lengths)
        z = tanh_gate(z + o, jax.nn.gelu(o @ lyr["wm"]), lyr["gate"])
    return z.mean(1) @ params["head"]


def loss(params, batch):
    logp = jax.nn.log_softmax(forward(params, batch["pos"], batch["rgb"], batch["len"]))
    return -jnp.take_along_axis(logp, batch["y"][:, None], -1).mean()


@jax.jit
def sgd(params, batch, lr=1e-2):
    val, g = jax.value_and_grad(loss)(params, batch)
    return val, jax.tree.map(lambda p, d: p - lr * d, params, g)
