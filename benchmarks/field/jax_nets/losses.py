"""Training objectives: contrastive, distillation, classification, ranking, detection, sequence.

All of them carry closed-form gradients; for most of them this avoids materialising a second set
of log-probabilities during the backward pass.
"""
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def _int_zero(a):
    return np.zeros(np.shape(a), dtype=jax.dtypes.float0)


# ------------------------------------------------------------------ contrastive

@jax.custom_vjp
def clip_loss(image_emb, text_emb, logit_scale):
    """Symmetric InfoNCE as in CLIP.

    Args:
        image_emb: ``[N, D]`` image embeddings (normalised by the caller).
        text_emb: ``[N, D]`` text embeddings, row i belongs to image i.
        logit_scale: scalar, log of the inverse temperature.

    Returns:
        Scalar loss.
    """
    return _clip_fwd(image_emb, text_emb, logit_scale)[0]


def _clip_fwd(image_emb, text_emb, logit_scale):
    s = jnp.exp(logit_scale) * image_emb @ text_emb.T
    rows, cols = jax.nn.log_softmax(s, axis=1), jax.nn.log_softmax(s, axis=0)
    loss = -0.5 * jnp.mean(jnp.diagonal(rows) + jnp.diagonal(cols))
    return loss, (image_emb, text_emb, logit_scale, s)


def _clip_bwd(res, g):
    a, b, logit_scale, s = res
    n = s.shape[0]
    ds = jax.nn.softmax(s, axis=1) + jax.nn.softmax(s, axis=0) - 2.0 * jnp.eye(n, dtype=s.dtype)
    ds = ds * (0.5 * g / n)
    scale = jnp.exp(logit_scale)
    return scale * ds @ b, scale * ds @ a, jnp.sum(ds * s)


clip_loss.defvjp(_clip_fwd, _clip_bwd)


# ------------------------------------------------------------------ distillation

@partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def distillation_kl(student, teacher, temperature=1.0, reduction="batchmean"):
    """Hinton distillation, T^2 * KL(teacher || student), differentiable in both logits.

    student, teacher: (batch, classes); reduction one of "none", "sum", "batchmean".
    """
    return _kd_fwd(student, teacher, temperature, reduction)[0]


def _kd_fwd(student, teacher, temperature, reduction):
    ls = jax.nn.log_softmax(student / temperature, axis=-1)
    lt = jax.nn.log_softmax(teacher / temperature, axis=-1)
    kl = jnp.sum(jnp.exp(lt) * (lt - ls), axis=-1)
    rows = temperature ** 2 * kl
    if reduction == "none":
        out = rows
    elif reduction == "sum":
        out = rows.sum()
    else:
        out = rows.sum() / rows.shape[0]
    return out, (ls, lt, kl)


def _kd_bwd(temperature, reduction, res, g):
    ls, lt, kl = res
    if reduction == "batchmean":
        g = g / ls.shape[0]
    g = jnp.broadcast_to(g, kl.shape)[:, None] * temperature
    p = jnp.exp(lt)
    return g * (jnp.exp(ls) - p), g * p * (lt - ls - kl[:, None])


distillation_kl.defvjp(_kd_fwd, _kd_bwd)


# ------------------------------------------------------------------ classification

@partial(jax.custom_vjp, nondiff_argnums=(2, 3, 4))
def token_cross_entropy(logits, labels, ignore_index=-100, label_smoothing=0.0, reduction="mean"):
    """Cross entropy over tokens.

    Parameters
    ----------
    logits : (B, T, V)
    labels : (B, T) int; positions equal to ``ignore_index`` do not contribute
    label_smoothing : float in [0, 1)
    reduction : {"mean", "sum", "none"}; "mean" averages over contributing positions
    """
    return _tce_fwd(logits, labels, ignore_index, label_smoothing, reduction)[0]


def _tce_fwd(logits, labels, ignore_index, label_smoothing, reduction):
    valid = labels != ignore_index
    safe = jnp.where(valid, labels, 0)
    logp = jax.nn.log_softmax(logits, axis=-1)
    nll = -jnp.take_along_axis(logp, safe[..., None], axis=-1)[..., 0]
    loss = (1.0 - label_smoothing) * nll - label_smoothing * jnp.mean(logp, axis=-1)
    loss = jnp.where(valid, loss, 0.0)
    if reduction == "mean":
        out = loss.sum() / jnp.maximum(valid.sum(), 1)
    elif reduction == "sum":
        out = loss.sum()
    else:
        out = loss
    return out, (logp, labels, valid, safe)


def _tce_bwd(ignore_index, label_smoothing, reduction, res, g):
    logp, labels, valid, safe = res
    vocab = logp.shape[-1]
    target = (1.0 - label_smoothing) * jax.nn.one_hot(safe, vocab, dtype=logp.dtype)
    target = target + label_smoothing / vocab
    dlogits = jnp.where(valid[..., None], jnp.exp(logp) - target, 0.0)
    if reduction == "mean":
        g = g / labels.size
    if reduction == "none":
        g = g[..., None]
    return dlogits * g, _int_zero(labels)


token_cross_entropy.defvjp(_tce_fwd, _tce_bwd)


# ------------------------------------------------------------------ ranking

@jax.custom_vjp
def list_mle(scores, relevance, mask):
    # scores, relevance [B, L] floats, mask [B, L] bool -> scalar
    return _mle_fwd(scores, relevance, mask)[0]


def _mle_fwd(scores, relevance, mask):
    order = jnp.argsort(jnp.where(mask, -relevance, jnp.inf), axis=-1)
    s = jnp.take_along_axis(jnp.where(mask, scores, -1e9), order, axis=-1)
    m = jnp.take_along_axis(mask, order, axis=-1)
    lse = lax.cumlogsumexp(s, axis=1, reverse=True)
    loss = jnp.sum(jnp.where(m, lse - s, 0.0)) / scores.shape[0]
    return loss, (s, m, lse, order, relevance)


def _mle_bwd(res, g):
    s, m, lse, order, relevance = res
    tail = lax.cumlogsumexp(jnp.where(m, -lse, -1e9), axis=1)
    ds = jnp.where(m, jnp.exp(s + tail) - 1.0, 0.0) * (g / s.shape[0])
    back = jnp.argsort(order, axis=-1)
    return jnp.take_along_axis(ds, back, axis=-1), jnp.zeros_like(relevance), _int_zero(m)


list_mle.defvjp(_mle_fwd, _mle_bwd)


# ------------------------------------------------------------------ detection

@partial(jax.custom_jvp, nondiff_argnums=(2,))
def smooth_l1(pred, target, beta=1.0):
    """Elementwise smooth L1 (Huber divided by beta), as used for box regression."""
    d = jnp.abs(pred - target)
    return jnp.where(d < beta, 0.5 * d * d / beta, d - 0.5 * beta)


@smooth_l1.defjvp
def _smooth_l1_jvp(beta, primals, tangents):
    pred, target = primals
    dpred, dtarget = tangents
    diff = pred - target
    slope = jnp.where(jnp.abs(diff) < beta, diff, jnp.sign(diff))
    return smooth_l1(pred, target, beta), slope * (dpred - dtarget)


def _edges(p, t):
    lo = jnp.maximum(p[..., :2], t[..., :2])
    hi = jnp.minimum(p[..., 2:], t[..., 2:])
    clo = jnp.minimum(p[..., :2], t[..., :2])
    chi = jnp.maximum(p[..., 2:], t[..., 2:])
    return lo, hi, clo, chi


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def giou_loss(pred, target, eps=1e-7):
    """Generalised IoU loss ``1 - GIoU`` of paired boxes.

    Both are (..., 4) as (x1, y1, x2, y2) with x2 > x1 and y2 > y1; one loss per pair.
    """
    return _giou_fwd(pred, target, eps)[0]


def _giou_fwd(p, t, eps):
    lo, hi, clo, chi = _edges(p, t)
    inter = jnp.prod(jnp.maximum(hi - lo, 0.0), axis=-1)
    hull = jnp.prod(chi - clo, axis=-1) + eps
    union = (jnp.prod(p[..., 2:] - p[..., :2], axis=-1)
             + jnp.prod(t[..., 2:] - t[..., :2], axis=-1) - inter + eps)
    return 2.0 - inter / union - union / hull, (p, t, inter, union, hull)


def _giou_bwd(eps, res, g):
    p, t, inter, union, hull = res
    lo, hi, clo, chi = _edges(p, t)
    d_union = g * (inter / union ** 2 - 1.0 / hull)
    d_inter = -g / union - d_union
    d_hull = g * union / hull ** 2

    iwh = jnp.maximum(hi - lo, 0.0)
    d_iwh = d_inter[..., None] * iwh[..., ::-1] * (hi > lo)
    d_cwh = d_hull[..., None] * (chi - clo)[..., ::-1]

    def side(box, other):
        own = d_union[..., None] * (box[..., 2:] - box[..., :2])[..., ::-1]
        upper = box[..., 2:] < other[..., 2:]
        lower = box[..., :2] > other[..., :2]
        d_hi = own + jnp.where(upper, d_iwh, d_cwh)
        d_lo = -own - jnp.where(lower, d_iwh, d_cwh)
        return jnp.concatenate([d_lo, d_hi], axis=-1)

    return side(p, t), side(t, p)


giou_loss.defvjp(_giou_fwd, _giou_bwd)


# ------------------------------------------------------------------ sequence labelling

def _crf_alphas(emissions, transitions):
    def step(a, e):
        nxt = jax.nn.logsumexp(a[:, :, None] + transitions[None], axis=1) + e
        return nxt, nxt
    _, rest = lax.scan(step, emissions[:, 0], jnp.swapaxes(emissions[:, 1:], 0, 1))
    return jnp.concatenate([emissions[None, :, 0], rest], axis=0)      # [T, B, K]


@jax.custom_vjp
def crf_log_norm(emissions, transitions, lengths):
    """Log-partition function of a linear-chain CRF.

    Args:
      emissions: [batch, time, tags] unary scores.
      transitions: [tags, tags], entry (i, j) scores tag i followed by tag j.
      lengths: [batch] int, number of real steps, at least 1.

    Returns:
      [batch] log normalisers.
    """
    return _crf_fwd(emissions, transitions, lengths)[0]


def _crf_fwd(emissions, transitions, lengths):
    alphas = _crf_alphas(emissions, transitions)
    last = alphas[lengths - 1, jnp.arange(emissions.shape[0])]
    logz = jax.nn.logsumexp(last, axis=-1)
    return logz, (emissions, transitions, lengths, alphas, logz)


def _crf_bwd(res, g):
    em, trans, lengths, alphas, logz = res
    steps = em.shape[1]
    em_t = jnp.swapaxes(em, 0, 1)

    def back(beta, inp):
        e_next, t = inp
        cand = jax.nn.logsumexp(trans[None] + (e_next + beta)[:, None, :], axis=-1)
        beta = jnp.where((t < lengths - 1)[:, None], cand, 0.0)
        return beta, beta

    init = jnp.zeros_like(em_t[0])
    _, betas = lax.scan(back, init, (em_t[1:], jnp.arange(steps - 1)), reverse=True)
    betas = jnp.concatenate([betas, init[None]], axis=0)
    inside = (jnp.arange(steps)[:, None] < lengths[None, :])           # [T, B]
    unary = jnp.exp(jnp.where(inside[..., None], alphas + betas - logz[None, :, None], -jnp.inf))
    pair = (alphas[:-1, :, :, None] + trans + (em_t + betas)[1:, :, None, :]
            - logz[None, :, None, None])
    pair = jnp.exp(jnp.where(inside[1:, :, None, None], pair, -jnp.inf))
    dem = jnp.swapaxes(unary, 0, 1) * g[:, None, None]
    dtrans = jnp.einsum("tbij,b->ij", pair, g)
    return dem, dtrans, None


crf_log_norm.defvjp(_crf_fwd, _crf_bwd)


def crf_nll(emissions, transitions, tags, lengths):
    """Mean negative log likelihood of gold ``tags`` [batch, time]."""
    steps = jnp.arange(emissions.shape[1])[None]
    un = jnp.take_along_axis(emissions, tags[..., None], axis=-1)[..., 0]
    un = jnp.where(steps < lengths[:, None], un, 0.0).sum(1)
    pw = transitions[tags[:, :-1], tags[:, 1:]]
    pw = jnp.where(steps[:, 1:] < lengths[:, None], pw, 0.0).sum(1)
    return jnp.mean(crf_log_norm(emissions, transitions, lengths) - un - pw)
