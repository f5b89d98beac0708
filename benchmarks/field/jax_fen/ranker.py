"""Text and feature-interaction blocks of the ranking model."""

from functools import partial

import jax
import jax.numpy as jnp


def _coverage(attn):
    """Attention spent on each source token before the current step."""
    return jnp.cumsum(attn, axis=-2) - attn


@jax.custom_gradient
def coverage_loss(attn, step_mask):
    """Repetition penalty for pointer-generator summarisation (See et al., 2017).

    Args:
      attn: float [batch, target, source], attention weights, target steps in order.
      step_mask: float [batch, target], 1 for real target steps and 0 for padding at the end.
        A mask: its derivative is not defined and is returned as zero.

    Returns:
      float [batch], the mean over the real steps of sum_i min(attn_ti, coverage_ti).
      Every sequence has at least one real step.
    """
    cov = _coverage(attn)
    per_step = jnp.minimum(attn, cov).sum(-1)
    loss = (per_step * step_mask).sum(-1) / step_mask.sum(-1)

    def backward(g):
        scale = (g[:, None] * step_mask / step_mask.shape[-1])[..., None]
        is_attn = (attn < cov).astype(attn.dtype)
        is_cov = 1.0 - is_attn
        through_cov = is_cov * scale
        later = jnp.flip(jnp.cumsum(jnp.flip(through_cov, -2), axis=-2), -2) - through_cov
        return is_attn * scale + later, jnp.zeros_like(step_mask)

    return loss, backward


# --- deep & cross ------------------------------------------------------------


def _cross_forward(x, kernels, biases):
    def layer(h, wb):
        w, b = wb
        s = h @ w
        return x * s[..., None] + b + h, s

    return jax.lax.scan(layer, x, (kernels, biases))


@jax.custom_vjp
def cross_tower(x, params):
    """Stack of DCN cross layers, h <- x * <h, w> + b + h.

    x is [..., d]; params is the pair (kernels [layers, d], biases [layers, d]). Activations are not
    stored: each layer is undone from its output and its one scalar per example.
    """
    return _cross_forward(x, *params)[0]


def _cross_tower_fwd(x, params):
    out, scores = _cross_forward(x, *params)
    return out, (x, params, out, scores)


def _cross_tower_bwd(res, ct):
    x, (kernels, biases), out, scores = res
    batch_axes = tuple(range(x.ndim - 1))

    def layer(carry, inp):
        h_next, g, dx = carry
        w, b, s = inp
        h = h_next - b - x * s[..., None]
        ds = jnp.sum(g * x, axis=-1)
        dx = dx + g * s[..., None]
        dw = jnp.sum(ds[..., None] * h, axis=batch_axes)
        db = jnp.sum(g, axis=batch_axes)
        g = g + ds[..., None] * w
        return (h, g, dx), (dw, db)

    (_, g, dx), (dkernels, dbiases) = jax.lax.scan(
        layer, (out, ct, jnp.zeros_like(x)), (kernels, biases, scores), reverse=True
    )
    return dx + g, (dkernels, dbiases)


cross_tower.defvjp(_cross_tower_fwd, _cross_tower_bwd)


# --- input embedding ---------------------------------------------------------


def _positions(ids, pad_id):
    """1, 2, ... over the real tokens, 0 at padding."""
    real = (ids != pad_id).astype(jnp.int32)
    return jnp.cumsum(real, axis=-1) * real


@partial(jax.custom_vjp, nondiff_argnums=(3, 4))
def compose_embeddings(params, ids, type_ids, pad_id=0, scale=1.0):
    """Sum of token, segment and position embeddings.

    Args:
      params: dict with "token" [vocab, d], "type" [types, d] and "position" [1 + max_len, d].
      ids: int [batch, length] token ids, in range, padded with ``pad_id`` anywhere.
      type_ids: int [batch, length] segment ids.
      pad_id: id of the padding token. Like ``padding_idx`` in other frameworks, its row of the token
        table is used in the forward pass but frozen: it deliberately gets a zero gradient. The segment
        and position tables are trained at padding as everywhere else.
      scale: factor on the token embedding (sqrt(d) in the original transformer).

    Returns:
      [batch, length, d]
    """
    return (
        scale * params["token"][ids]
        + params["type"][type_ids]
        + params["position"][_positions(ids, pad_id)]
    )


def _compose_fwd(params, ids, type_ids, pad_id, scale):
    return compose_embeddings(params, ids, type_ids, pad_id, scale), (params, ids, type_ids)


def _compose_bwd(pad_id, scale, res, ct):
    params, ids, type_ids = res

    def scatter(table, index, g):
        return jnp.zeros_like(table).at[index].add(g.astype(table.dtype))

    token_ct = jnp.where((ids != pad_id)[..., None], scale * ct, 0.0)
    grads = {
        "token": scatter(params["token"], ids, token_ct),
        "type": scatter(params["type"], type_ids, ct),
        "position": scatter(params["position"], _positions(ids, pad_id), ct),
    }
    return grads, None, None


compose_embeddings.defvjp(_compose_fwd, _compose_bwd)


def init_ranker(key, vocab, d, layers, max_len):
    k = jax.random.split(key, 5)
    return {
        "embed": {
            "token": 0.1 * jax.random.normal(k[0], (vocab, d)),
            "type": 0.1 * jax.random.normal(k[1], (2, d)),
            "position": 0.1 * jax.random.normal(k[2], (1 + max_len, d)),
        },
        "cross": (0.1 * jax.random.normal(k[3], (layers, d)), jnp.zeros((layers, d))),
        "head": 0.1 * jax.random.normal(k[4], (d,)),
    }


def train_step(params, batch, lr=1e-2):
    """One SGD step on the logistic click loss; returns (params, loss)."""

    def loss_fn(p):
        h = compose_embeddings(p["embed"], batch["ids"], batch["types"], 0, 1.0).mean(axis=1)
        logit = cross_tower(h, p["cross"]) @ p["head"]
        y = batch["click"]
        return jnp.mean(jax.nn.softplus(logit) - y * logit)

    loss, grads = jax.value_and_grad(loss_fn)(params)
    return jax.tree_util.tree_map(lambda p, g: p - lr * g, params, grads), loss
