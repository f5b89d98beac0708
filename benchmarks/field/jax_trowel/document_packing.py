"""Training pieces for language models on packed documents.

Short documents are packed back to back in rows of fixed length, so that little
of a batch is padding.  A row then holds several documents, told apart by an
integer table of document ids, and everything that reaches along the sequence
has to stop where a document stops.  This module has the parts of a small
recurrent language model that know of the boundaries:

* ``document_token_shift`` mixes each token with the one before it,
* ``document_memory`` is a gated linear memory that starts anew per document,
* ``document_mean_nll`` averages within the document first, then over them,
* ``make_tilted_loss`` weighs hard documents more.

Tables of ids: ``-1`` stands for padding, ids go up within a row from 0.
"""
from functools import partial
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np

IGNORE = -100
PAD_ID = -1


class PackedBatch(NamedTuple):
    tokens: np.ndarray   # (rows, length)
    labels: np.ndarray   # (rows, length), IGNORE where there is none
    doc_ids: np.ndarray  # (rows, length)
    num_docs: int        # largest number of documents in a row


def pack_documents(documents: Sequence[Sequence[int]], length: int) -> PackedBatch:
    """First-fit packing in order of falling length.

    Documents longer than a row are cut at its end.  Labels are the next token
    of the same document; the last token of a document has none.
    """
    rows: List[List[Sequence[int]]] = []
    room: List[int] = []
    for doc in sorted(documents, key=len, reverse=True):
        doc = doc[:length]
        for i, free in enumerate(room):
            if len(doc) <= free:
                rows[i].append(doc)
                room[i] -= len(doc)
                break
        else:
            rows.append([doc])
            room.append(length - len(doc))
    tokens = np.zeros((len(rows), length), np.int32)
    labels = np.full((len(rows), length), IGNORE, np.int32)
    doc_ids = np.full((len(rows), length), PAD_ID, np.int32)
    for r, docs in enumerate(rows):
        at = 0
        for d, doc in enumerate(docs):
            n = len(doc)
            tokens[r, at : at + n] = doc
            labels[r, at : at + n - 1] = doc[1:]
            doc_ids[r, at : at + n] = d
            at += n
    return PackedBatch(tokens, labels, doc_ids, max(len(d) for d in rows))


def positions_in_document(doc_ids: np.ndarray) -> np.ndarray:
    """0, 1, 2, ... from the start of every document."""
    step = np.arange(doc_ids.shape[1])
    starts = np.ones_like(doc_ids, bool)
    starts[:, 1:] = doc_ids[:, 1:] != doc_ids[:, :-1]
    return step - np.maximum.accumulate(np.where(starts, step, 0), axis=1)


def same_as_previous(doc_ids):
    """1.0 where a token goes on with the document of its left neighbour.

    The first column compares with itself; the neighbour that it lacks is zero
    anyway.
    """
    left = jnp.concatenate([doc_ids[:, :1], doc_ids[:, :-1]], axis=1)
    return (left == doc_ids)[..., None]


def _shift_right(x):
    return jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]


def _shift_left(x):
    return jnp.pad(x, ((0, 0), (0, 1), (0, 0)))[:, 1:]


# ---------------------------------------------------------------------------
# token shift
# ---------------------------------------------------------------------------


@jax.custom_vjp
def document_token_shift(x, mix, doc_ids):
    """Blend of a token with its left neighbour in the same document.

    Parameters
    ----------
    x : array (rows, length, channels)
    mix : array (channels,)
        Share of the token itself.
    doc_ids : integer array (rows, length)

    Returns
    -------
    array (rows, length, channels)
        ``mix * x[t] + (1 - mix) * x[t - 1]``, the second part left out at the
        start of a document.
    """
    same = same_as_previous(doc_ids).astype(x.dtype)
    return mix * x + (1.0 - mix) * _shift_right(x) * same


def _document_token_shift_fwd(x, mix, doc_ids):
    return document_token_shift(x, mix, doc_ids), (x, mix, doc_ids)


def _document_token_shift_bwd(res, g):
    x, mix, doc_ids = res
    same = same_as_previous(doc_ids).astype(x.dtype)
    from_right = _shift_left(g) * same
    dx = mix * g + (1.0 - mix) * from_right
    dmix = jnp.sum(g * (x - _shift_right(x) * same), axis=(0, 1))
    return dx, dmix, None


document_token_shift.defvjp(_document_token_shift_fwd, _document_token_shift_bwd)


# ---------------------------------------------------------------------------
# memory
# ---------------------------------------------------------------------------


def _continues(doc_ids):
    """Which tokens carry the memory over; the first one takes the given state."""
    return same_as_previous(doc_ids)


def _time_major(*arrays):
    return tuple(jnp.swapaxes(a, 0, 1) for a in arrays)


def _run_memory(decay, value, state, doc_ids):
    keep = _continues(doc_ids).astype(decay.dtype)

    def step(h, inputs):
        a, b, k = inputs
        h = a * k * h + b
        return h, h

    last, hs = jax.lax.scan(step, state, _time_major(decay, value, keep))
    return jnp.swapaxes(hs, 0, 1), last


@jax.custom_vjp
def document_memory(decay, value, state, doc_ids):
    """Gated linear memory, ``h = decay * h + value``, forgotten between documents.

    decay, value: (rows, length, channels); state: (rows, channels), what the
    row before has left of a document cut in two.  Gives the memory at all
    tokens and the state to hand on.
    """
    return _run_memory(decay, value, state, doc_ids)


def _document_memory_fwd(decay, value, state, doc_ids):
    hs, last = _run_memory(decay, value, state, doc_ids)
    return (hs, last), (decay, state, hs, doc_ids)


def _document_memory_bwd(res, cts):
    decay, state, hs, doc_ids = res
    g_hs, g_last = cts
    keep = _continues(doc_ids).astype(decay.dtype)
    before = jnp.concatenate([state[:, None], hs[:, :-1]], axis=1) * keep

    def step(lam, inputs):
        g, a, k = inputs
        lam = lam + g
        return lam * a * k, lam

    d_state, lams = jax.lax.scan(
        step, g_last, _time_major(g_hs, decay, keep), reverse=True
    )
    lams = jnp.swapaxes(lams, 0, 1)
    return lams * before, lams, d_state, None


document_memory.defvjp(_document_memory_fwd, _document_memory_bwd)


# ---------------------------------------------------------------------------
# losses
# ---------------------------------------------------------------------------


def _document_weights(labels, doc_ids, num_docs, dtype):
    """1 / (tokens of my document * documents in the batch), zero if unlabelled."""
    counted = (labels != IGNORE) & (doc_ids != PAD_ID)
    rows = jnp.arange(labels.shape[0])[:, None]
    slot = rows * num_docs + jnp.where(doc_ids == PAD_ID, 0, doc_ids)
    sizes = jnp.zeros((labels.shape[0] * num_docs,), dtype)
    sizes = sizes.at[slot].add(counted.astype(dtype))
    documents = jnp.maximum(jnp.sum(sizes > 0), 1)
    share = 1.0 / (jnp.maximum(sizes, 1.0)[slot] * documents)
    return jnp.where(counted, share, 0.0)


def _safe_labels(labels):
    return jnp.where(labels == IGNORE, 0, labels)


@partial(jax.custom_vjp, nondiff_argnums=(3,))
def document_mean_nll(logits, labels, doc_ids, num_docs):
    """Negative log likelihood, first averaged over each document's tokens.

    logits (rows, length, vocabulary).  Documents without a single labelled
    token do not count.
    """
    weights = _document_weights(labels, doc_ids, num_docs, logits.dtype)
    logp = jax.nn.log_softmax(logits, axis=-1)
    picked = jnp.take_along_axis(logp, _safe_labels(labels)[..., None], -1)[..., 0]
    return -jnp.sum(weights * picked)


def _document_mean_nll_fwd(logits, labels, doc_ids, num_docs):
    return document_mean_nll(logits, labels, doc_ids, num_docs), (logits, labels, doc_ids)


def _document_mean_nll_bwd(num_docs, res, g):
    logits, labels, doc_ids = res
    weights = _document_weights(labels, doc_ids, num_docs, logits.dtype)
    probs = jax.nn.softmax(logits, axis=-1)
    rows, cols = jnp.indices(labels.shape)
    probs = probs.at[rows, cols, _safe_labels(labels)].add(-1.0)
    return g * weights[..., None] * probs, None, None


document_mean_nll.defvjp(_document_mean_nll_fwd, _document_mean_nll_bwd)


def make_tilted_loss():
    """Tilted mean of document losses.

    ``(1 / tilt) log sum_d w_d exp(tilt loss_d)`` with ``w`` the share of the
    tokens: the mean for a small tilt, the worst document for a large one.  The
    tilt itself is scheduled, or learned by the outer loop, and starts from 1.
    """

    @jax.custom_gradient
    def tilted(losses, tokens, tilt):
        total = jnp.sum(tokens)
        top = jnp.max(tilt * losses)
        scaled = jnp.exp(tilt * losses - top)
        value = (jnp.log(jnp.sum(tokens * scaled) / total) + top) / tilt

        def grad(g):
            ratio = jnp.exp(tilt * (losses - value))
            share = tokens / total * ratio
            d_tokens = (ratio - 1.0) / (tilt * total)
            d_tilt = jnp.sum(share * losses) - value
            return g * share, g * d_tokens, g * d_tilt

        return value, grad

    return tilted


# ---------------------------------------------------------------------------
# model
# ---------------------------------------------------------------------------

Params = Dict[str, Any]


def init_params(key, vocabulary: int, channels: int, layers: int) -> Params:
    keys = jax.random.split(key, 2 + layers)

    def layer(k):
        k1, k2, k3 = jax.random.split(k, 3)
        scale = channels**-0.5
        return {
            "mix": jnp.full((channels,), 0.6),
            "decay": scale * jax.random.normal(k1, (channels, channels)),
            "value": scale * jax.random.normal(k2, (channels, channels)),
            "out": scale * jax.random.normal(k3, (channels, channels)),
        }

    return {
        "embed": 0.1 * jax.random.normal(keys[0], (vocabulary, channels)),
        "head": 0.1 * jax.random.normal(keys[1], (channels, vocabulary)),
        "layers": [layer(k) for k in keys[2:]],
    }


def forward(params: Params, tokens, doc_ids):
    x = params["embed"][tokens]
    for layer in params["layers"]:
        mixed = document_token_shift(x, layer["mix"], doc_ids)
        decay = jax.nn.sigmoid(mixed @ layer["decay"] + 2.0)
        value = (1.0 - decay) * (mixed @ layer["value"])
        state = jnp.zeros((x.shape[0], x.shape[-1]), x.dtype)
        memory, _ = document_memory(decay, value, state, doc_ids)
        x = x + jax.nn.gelu(memory) @ layer["out"]
    return x @ params["head"]


def loss_fn(params: Params, batch: PackedBatch):
    logits = forward(params, batch.tokens, batch.doc_ids)
    return document_mean_nll(logits, batch.labels, batch.doc_ids, batch.num_docs)


def train_step(params: Params, batch: PackedBatch, rate: float = 0.1) -> Tuple[Params, jax.Array]:
    value, grads = jax.value_and_grad(loss_fn)(params, batch)
    return jax.tree.map(lambda p, g: p - rate * g, params, grads), value


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    docs = [rng.integers(1, 30, size=n).tolist() for n in (5, 9, 14, 3, 7, 12, 2)]
    packed = pack_documents(docs, 16)
    weights = init_params(jax.random.PRNGKey(0), 30, 12, 2)
    for _ in range(10):
        weights, value = train_step(weights, packed)
    print("loss", float(value))
    worst = make_tilted_loss()(jnp.array([1.0, 2.5, 0.7]), jnp.array([9.0, 14.0, 5.0]), 1.0)
    print("tilted", float(worst))
