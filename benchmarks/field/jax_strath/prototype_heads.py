"""Output heads for few-shot and span models."""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

NEG = -1e9


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def mahalanobis_logits(x, protos, log_prec, temperature=1.0):
    """Diagonal-Gaussian class scores.

    x (..., D), protos (C, D), log_prec (C, D) -> (..., C):
    ``(-0.5 * sum_d exp(log_prec) (x - proto)^2 + 0.5 * sum_d log_prec) / temperature``
    """
    diff = x[..., None, :] - protos
    quad = jnp.einsum("...cd,cd->...c", diff**2, jnp.exp(log_prec))
    return 0.5 * (log_prec.sum(-1) - quad) / temperature


def _mahal_fwd(x, protos, log_prec, temperature):
    return mahalanobis_logits(x, protos, log_prec, temperature), (x, protos, log_prec)


def _mahal_bwd(temperature, res, g):
    x, protos, log_prec = res
    prec = jnp.exp(log_prec)
    diff = x[..., None, :] - protos
    gs = g[..., None] / temperature
    pull = gs * prec * diff
    lead = tuple(range(x.ndim - 1))
    d_prec = -0.5 * (pull * diff).sum(lead)
    d_norm = 0.5 * g.sum(lead)[:, None]
    return -pull.sum(-2), pull.sum(lead), d_prec + d_norm


mahalanobis_logits.defvjp(_mahal_fwd, _mahal_bwd)


def _span_grid(token_mask, max_width):
    n = token_mask.shape[-1]
    width = jnp.arange(n)[None, :] - jnp.arange(n)[:, None]
    ok = (width >= 0) & (width < max_width)
    return jnp.clip(width, 0, max_width - 1), ok & token_mask[:, :, None] & token_mask[:, None, :]


@jax.custom_vjp
def span_scores(start, end, width_bias, token_mask):
    """Additive span scorer.

    Args:
      start, end: (B, T) token scores.
      width_bias: (W,) bias of spans of 1..W tokens; longer spans are not scored.
      token_mask: (B, T) bool, False on padding.
    Returns:
      (B, T, T) with [b, i, j] the score of span i..j; ``NEG`` where there is no span.
    """
    width, ok = _span_grid(token_mask, width_bias.shape[0])
    s = start[:, :, None] + end[:, None, :] + width_bias[width]
    return jnp.where(ok, s, NEG)


def _span_fwd(start, end, width_bias, token_mask):
    return span_scores(start, end, width_bias, token_mask), (width_bias, token_mask)


def _span_bwd(res, g):
    width_bias, token_mask = res
    width, ok = _span_grid(token_mask, width_bias.shape[0])
    g = jnp.where(ok, g, 0.0)
    d_bias = jnp.zeros_like(width_bias).at[width].add(g.sum(0))
    return g.sum(2), g.sum(1), d_bias, np.zeros(token_mask.shape, jax.dtypes.float0)


span_scores.defvjp(_span_fwd, _span_bwd)


class TimeEncoder:
    """Time2Vec: one linear and K - 1 periodic features of a time stamp."""

    def __init__(self, features, wave="sin"):
        self.features = features
        self.encode = self._build(wave)

    def init(self, key):
        kw, kp = jax.random.split(key)
        return {"freq": jax.random.normal(kw, (self.features,)),
                "phase": jax.random.uniform(kp, (self.features,))}

    def __call__(self, params, t):
        return self.encode(params["freq"], params["phase"], t)

    @staticmethod
    def _build(wave):
        wave_fn = {"sin": jnp.sin, "cos": jnp.cos}[wave]
        quad_fn = {"sin": jnp.cos, "cos": jnp.sin}[wave]

        @jax.custom_vjp
        def time2vec(freq, phase, t):
            arg = t[..., None] * freq + phase
            return jnp.concatenate([arg[..., :1], wave_fn(arg[..., 1:])], -1)

        def fwd(freq, phase, t):
            return time2vec(freq, phase, t), (freq, phase, t)

        def bwd(res, g):
            freq, phase, t = res
            arg = t[..., None] * freq + phase
            d_arg = jnp.concatenate([g[..., :1], g[..., 1:] * quad_fn(arg[..., 1:])], -1)
            lead = tuple(range(t.ndim))
            return (d_arg * t[..., None]).sum(lead), d_arg.sum(lead), d_arg @ freq

        time2vec.defvjp(fwd, bwd)
        return time2vec
