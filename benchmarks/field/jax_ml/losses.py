"""Training losses.

All of them return a scalar with the default reduction.  Gradients are written by hand
because the autodiff versions either keep the full probability tensor around or
overflow in half precision.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax


def _int_zero(a):
    return np.zeros(np.shape(a), jax.dtypes.float0)


# ------------------------------------------------------------ classification

@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def smoothed_cross_entropy(logits, labels, smoothing=0.0, ignore_index=-100, reduction="mean"):
    """Cross entropy with label smoothing.

    Parameters
    ----------
    logits : (N, C) float
    labels : (N,) int
        Entries equal to `ignore_index` do not contribute.
    smoothing : float
        Mass spread uniformly over all the classes.
    ignore_index : int
    reduction : {"mean", "sum", "none"}
        "mean" averages over the labels that count.
    """
    return _sce_fwd(logits, labels, smoothing, ignore_index, reduction)[0]


def _sce_fwd(logits, labels, smoothing, ignore_index, reduction):
    valid = labels != ignore_index
    safe = jnp.where(valid, labels, 0)
    logp = jax.nn.log_softmax(logits, axis=-1)
    nll = -jnp.take_along_axis(logp, safe[:, None], axis=-1)[:, 0]
    uniform = -logp.mean(axis=-1)
    losses = jnp.where(valid, (1 - smoothing) * nll + smoothing * uniform, 0.0)
    if reduction == "mean":
        out = losses.sum() / jnp.maximum(valid.sum(), 1)
    elif reduction == "sum":
        out = losses.sum()
    else:
        out = losses
    return out, (logp, safe, valid)


def _sce_bwd(smoothing, ignore_index, reduction, res, g):
    logp, safe, valid = res
    num_classes = logp.shape[-1]
    target = (1 - smoothing) * jax.nn.one_hot(safe, num_classes, dtype=logp.dtype)
    target = target + smoothing / num_classes
    dlogits = jnp.where(valid[:, None], jnp.exp(logp) - target, 0.0)
    if reduction == "mean":
        dlogits = dlogits * (g / logp.shape[0])
    elif reduction == "sum":
        dlogits = dlogits * g
    else:
        dlogits = dlogits * g[:, None]
    return dlogits, _int_zero(safe)


smoothed_cross_entropy.defvjp(_sce_fwd, _sce_bwd)


def focal_loss(logits, targets, alpha=0.25, gamma=2.0):
    """Binary focal loss (Lin et al., 2017), averaged over all anchors.

    Args:
        logits: raw scores, any shape.
        targets: 0/1 integers, same shape.
        alpha: weight of the positives (1 - alpha for the negatives).
        gamma: focusing exponent.
    """

    @jax.custom_gradient
    def _loss(z):
        sign = jnp.where(targets == 1, 1.0, -1.0).astype(z.dtype)
        at = jnp.where(targets == 1, alpha, 1.0 - alpha).astype(z.dtype)
        log_pt = jax.nn.log_sigmoid(sign * z)
        pt = jnp.exp(log_pt)
        q = jax.nn.sigmoid(-sign * z)
        mod = at * q**gamma

        def grad(ct):
            return ct * sign * mod * (gamma * pt * log_pt - q) / z.size

        return jnp.mean(-mod * log_pt), grad

    return _loss(logits)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def bce_with_logits(logits, targets, pos_weight, reduction="mean"):
    """Binary cross entropy on logits with a per-class positive weight.

    :param logits: ``(batch, classes)``
    :param targets: ``(batch, classes)`` probabilities in [0, 1]
    :param pos_weight: ``(classes,)``
    :param reduction: ``"mean"``, ``"sum"`` or ``"none"``
    """
    return _bce_fwd(logits, targets, pos_weight, reduction)[0]


def _reduce(x, reduction):
    return {"mean": jnp.mean, "sum": jnp.sum, "none": lambda t: t}[reduction](x)


def _bce_fwd(logits, targets, pos_weight, reduction):
    w = 1 + (pos_weight - 1) * targets
    loss = (1 - targets) * logits + w * jax.nn.softplus(-logits)
    return _reduce(loss, reduction), (logits, targets, pos_weight)


def _bce_bwd(reduction, res, g):
    logits, targets, pos_weight = res
    if reduction == "mean":
        g = g / logits.size
    g = jnp.broadcast_to(g, logits.shape)
    w = 1 + (pos_weight - 1) * targets
    sp = jax.nn.softplus(-logits)
    dlogits = g * w * (jax.nn.sigmoid(logits) - targets)
    dtargets = g * ((pos_weight - 1) * sp - logits)
    dpos = jnp.sum(g * targets * sp, axis=0)
    return dlogits, dtargets, dpos


bce_with_logits.defvjp(_bce_fwd, _bce_bwd)


@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def dice_loss(probs, target, smooth=1.0, reduction="mean"):
    """Soft Dice loss per sample and class.

    Args:
        probs: ``[batch, classes, height, width]`` probabilities.
        target: same shape, one-hot or soft.
        smooth: additive smoothing of numerator and denominator.
        reduction: "mean", "sum" or "none" (``[batch, classes]``).
    """
    return _dice_fwd(probs, target, smooth, reduction)[0]


def _dice_fwd(probs, target, smooth, reduction):
    num = 2 * jnp.einsum("nchw,nchw->nc", probs, target) + smooth
    den = probs.sum((2, 3)) + target.sum((2, 3)) + smooth
    return _reduce(1 - num / den, reduction), (probs, target, num, den)


def _dice_bwd(smooth, reduction, res, g):
    probs, target, num, den = res
    if reduction == "mean":
        g = g / num.size
    g = jnp.broadcast_to(g, num.shape)
    a = (-2 * g / den)[..., None, None]
    b = (g * num / den**2)[..., None, None]
    return a * target + b, a * probs + b


dice_loss.defvjp(_dice_fwd, _dice_bwd)


# ------------------------------------------------------------ vocabulary-sized

def make_chunked_xent(chunk):
    """Cross entropy of ``hidden @ weight.T`` that never holds all the logits.

    The vocabulary is visited ``chunk`` rows at a time, with a running log-sum-exp.
    """

    @jax.custom_vjp
    def xent(hidden, weight, labels):
        return fwd(hidden, weight, labels)[0]

    def fwd(hidden, weight, labels):
        vocab = weight.shape[0]
        lse = jnp.full(hidden.shape[:1], -jnp.inf, hidden.dtype)
        for start in range(0, vocab, chunk):
            part = hidden @ weight[start:start + chunk].T
            lse = jnp.logaddexp(lse, jax.nn.logsumexp(part, axis=1))
        gold = jnp.sum(hidden * weight[labels], axis=1)
        return jnp.mean(lse - gold), (hidden, weight, labels, lse)

    def bwd(res, g):
        hidden, weight, labels, lse = res
        g = g / hidden.shape[0]
        dh = -weight[labels]
        pieces = []
        for start in range(0, weight.shape[0], chunk):
            rows = weight[start:start + chunk]
            p = jnp.exp(hidden @ rows.T - lse[:, None])
            dh = dh + p @ rows
            pieces.append(p.T @ hidden)
        dw = jnp.concatenate(pieces, axis=0).at[labels].add(-hidden)
        return g * dh, g * dw, None

    xent.defvjp(fwd, bwd)
    return xent


chunked_xent = make_chunked_xent(4)


@jax.custom_vjp
def sampled_softmax_loss(weight, bias, hidden, labels, sampled):
    # weight [V, D], bias [V], hidden [N, D], labels [N], sampled [S] (shared negatives)
    return _sampled_fwd(weight, bias, hidden, labels, sampled)[0]


def _sampled_fwd(weight, bias, hidden, labels, sampled):
    true_logit = jnp.sum(hidden * weight[labels], axis=-1) + bias[labels]
    neg_logits = hidden @ weight[sampled].T + bias[sampled]
    logits = jnp.concatenate([true_logit[:, None], neg_logits], axis=1)
    logp = jax.nn.log_softmax(logits, axis=1)
    return -logp[:, 0].mean(), (weight, bias, hidden, labels, sampled, jnp.exp(logp))


def _sampled_bwd(res, g):
    weight, bias, hidden, labels, sampled, p = res
    d = (g / hidden.shape[0]) * p.at[:, 0].add(-1.0)
    dtrue, dneg = d[:, 0], d[:, 1:]
    dhidden = dtrue[:, None] * weight[labels] + dneg @ weight[sampled]
    dweight = jnp.zeros_like(weight)
    dweight = dweight.at[labels].set(dtrue[:, None] * hidden)
    dweight = dweight.at[sampled].add(dneg.T @ hidden)
    dbias = jnp.zeros_like(bias).at[labels].add(dtrue).at[sampled].add(dneg.sum(0))
    return dweight, dbias, dhidden, _int_zero(labels), _int_zero(sampled)


sampled_softmax_loss.defvjp(_sampled_fwd, _sampled_bwd)


# ------------------------------------------------------------ representation learning

@jax.custom_vjp
def clip_loss(image_emb, text_emb, logit_scale):
    """Symmetric InfoNCE between paired embeddings.

    Args:
        image_emb: ``[batch, dim]``.
        text_emb: ``[batch, dim]``; row i belongs to image i.
        logit_scale: scalar inverse temperature.
    """
    return _clip_fwd(image_emb, text_emb, logit_scale)[0]


def _clip_fwd(image_emb, text_emb, logit_scale):
    sim = image_emb @ text_emb.T
    logits = logit_scale * sim
    idx = jnp.arange(sim.shape[0])
    li = -jax.nn.log_softmax(logits, axis=1)[idx, idx].mean()
    lt = -jax.nn.log_softmax(logits, axis=0)[idx, idx].mean()
    return 0.5 * (li + lt), (image_emb, text_emb, logit_scale, sim)


def _clip_bwd(res, g):
    image_emb, text_emb, logit_scale, sim = res
    n = sim.shape[0]
    logits = logit_scale * sim
    d = jax.nn.softmax(logits, axis=1) + jax.nn.softmax(logits, axis=0)
    d = 0.5 * g / n * (d - 2 * jnp.eye(n, dtype=sim.dtype))
    dimage = logit_scale * (d @ text_emb)
    dtext = logit_scale * (d @ image_emb)
    return dimage, dtext, jnp.sum(d * sim)


clip_loss.defvjp(_clip_fwd, _clip_bwd)


@partial(jax.custom_jvp, nondiff_argnums=(2,))
def cosine_similarity(a, b, axis=-1):
    num = jnp.sum(a * b, axis=axis)
    return num / (jnp.linalg.norm(a, axis=axis) * jnp.linalg.norm(b, axis=axis))


@cosine_similarity.defjvp
def _cosine_jvp(axis, primals, tangents):
    a, b = primals
    da, db = tangents
    denom = jnp.linalg.norm(a, axis=axis) * jnp.linalg.norm(b, axis=axis)
    cos = jnp.sum(a * b, axis=axis) / denom
    dnum = jnp.sum(da * b + a * db, axis=axis)
    dlen = jnp.sum(a * da + b * db, axis=axis)
    return cos, (dnum - cos * dlen) / denom


def embedding_loss(params, batch):
    """Pull the projections of two views together, with a little weight decay."""
    za = batch["view_a"] @ params["proj"]
    zb = batch["view_b"] @ params["proj"]
    return jnp.mean(1 - cosine_similarity(za, zb)) + 1e-4 * optax.global_norm(params) ** 2


# ------------------------------------------------------------ alignment

_NEG = -1e30


def _alpha(log_probs):
    """Forward variables of the monotonic lattice, (T, B, S)."""
    lp = jnp.moveaxis(log_probs, 1, 0)
    first = jnp.full_like(lp[0], _NEG).at[:, 0].set(lp[0, :, 0])

    def step(prev, cur):
        shifted = jnp.concatenate([jnp.full_like(prev[:, :1], _NEG), prev[:, :-1]], axis=1)
        new = cur + jnp.logaddexp(prev, shifted)
        return new, new

    _, rest = jax.lax.scan(step, first, lp[1:])
    return jnp.concatenate([first[None], rest], axis=0)


@jax.custom_vjp
def forward_sum_loss(log_probs, frame_lens, token_lens):
    """Negative log-likelihood of all the monotonic frame-to-token alignments.

    At each frame the path stays on its token or advances by one; it starts on the first token
    and must be on the last token at the last frame.

    Args:
      log_probs: f32[batch, frames, tokens] log-probability of each token at each frame.
      frame_lens: i32[batch] number of valid frames (>= token_lens).
      token_lens: i32[batch] number of valid tokens.

    Returns:
      Scalar, averaged over the batch.
    """
    return _forward_sum_fwd(log_probs, frame_lens, token_lens)[0]


def _forward_sum_fwd(log_probs, frame_lens, token_lens):
    alpha = _alpha(log_probs)
    b = jnp.arange(log_probs.shape[0])
    log_z = alpha[frame_lens - 1, b, token_lens - 1]
    return -log_z.mean(), (log_probs, alpha, log_z, frame_lens, token_lens)


def _forward_sum_bwd(res, g):
    log_probs, alpha, log_z, frame_lens, token_lens = res
    bsz, t_max, s_max = log_probs.shape
    lp = jnp.moveaxis(log_probs, 1, 0)
    last = jnp.where(jnp.arange(s_max)[None, :] == token_lens[:, None] - 1, 0.0, _NEG)
    last = last.astype(lp.dtype)
    nothing = jnp.full((bsz, s_max), _NEG, lp.dtype)

    def step(nxt, inp):
        t, emit = inp
        stay = nxt + emit
        move = jnp.concatenate([stay[:, 1:], nothing[:, :1]], axis=1)
        beta = jnp.logaddexp(stay, move)
        beta = jnp.where((t == frame_lens - 1)[:, None], last, beta)
        beta = jnp.where((t > frame_lens - 1)[:, None], nothing, beta)
        return beta, beta

    emits = jnp.concatenate([lp[1:], jnp.zeros_like(lp[:1])], axis=0)
    _, beta = jax.lax.scan(step, nothing, (jnp.arange(t_max), emits), reverse=True)
    post = jnp.exp(jnp.minimum(alpha + beta - log_z[None, :, None], 0.0))
    dlp = -(g / bsz) * jnp.moveaxis(post, 0, 1)
    return dlp, None, None


forward_sum_loss.defvjp(_forward_sum_fwd, _forward_sum_bwd)


if __name__ == "__main__":
    k1, k2 = jax.random.split(jax.random.PRNGKey(0))
    print(jax.grad(chunked_xent)(jax.random.normal(k1, (3, 5)), jax.random.normal(k2, (10, 5)),
                                 jnp.array([1, 7, 2])))
