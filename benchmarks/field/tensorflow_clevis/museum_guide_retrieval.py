"""Matching photographs, captions and visits in a museum audio guide.

The guide app keeps one vector per exhibit.  A visitor's walk through the rooms
is condensed into a memory, the memory is used as a query over the exhibits
still ahead, and the exhibit vectors themselves are trained contrastively from
photographs and the curators' captions (an object often has several captions,
and was often photographed more than once).

Everything here is TensorFlow with hand-written gradients, because the tablet
runtime has no room for the intermediate tensors of the taped versions.
"""
from typing import NamedTuple, Optional

import tensorflow as tf

_FAR = -1.0e9


class GuideConfig(NamedTuple):
    dim: int = 32
    rank: int = 4
    average: bool = True
    log_scale: float = 2.0


@tf.custom_gradient
def exhibits_ahead_readout(query, exhibits, ahead, temperature):
    """Soft choice among the exhibits which the visitor has not yet passed.

    Args:
      query: float, [batch, dim].
      exhibits: float, [batch, exhibits, dim]; keys and values at once.
      ahead: bool, [batch, exhibits].  A visitor at the exit (no exhibit ahead)
        reads zeros, and has zero log-mass.
      temperature: positive scalar.

    Returns:
      The readout [batch, dim] and the log-mass (log-sum-exp of the scaled
      scores) [batch].
    """
    keep = tf.cast(ahead, query.dtype)
    scores = tf.einsum("bd,bnd->bn", query, exhibits) / temperature
    guarded = tf.where(ahead, scores, tf.cast(_FAR, scores.dtype))
    top = tf.stop_gradient(tf.reduce_max(guarded, axis=1, keepdims=True))
    mass = tf.exp(guarded - top) * keep
    total = tf.reduce_sum(mass, axis=1, keepdims=True)
    anyone = total > 0
    safe_total = tf.where(anyone, total, tf.ones_like(total))
    attention = mass / safe_total
    readout = tf.einsum("bn,bnd->bd", attention, exhibits)
    log_mass = tf.where(anyone, tf.math.log(safe_total) + top, tf.zeros_like(total))[:, 0]

    def grad(d_readout, d_mass):
        d_attention = tf.einsum("bd,bnd->bn", d_readout, exhibits)
        centre = tf.reduce_sum(attention * d_attention, axis=1, keepdims=True)
        d_scores = attention * (d_attention - centre + d_mass[:, None])
        d_query = tf.einsum("bn,bnd->bd", d_scores, exhibits) / temperature
        d_exhibits = (
            attention[:, :, None] * d_readout[:, None, :]
            + d_scores[:, :, None] * query[:, None, :] / temperature
        )
        d_temperature = -tf.reduce_sum(d_scores * scores) / temperature
        return d_query, d_exhibits, None, d_temperature

    return (readout, log_mass), grad


@tf.custom_gradient
def photo_caption_loss(photos, captions, log_scale, photo_object, caption_object):
    """Two-way contrastive loss between photographs and captions.

    photos (P, dim), captions (C, dim): unit vectors of the two encoders.
    photo_object (P,), caption_object (C,): integer object numbers. Each photo
    has at least one caption of its object in the batch and each caption at least
    one photo. Where there are several, the target is spread evenly over them, in
    either direction. The loss is the average of the two mean cross-entropies.
    """
    scale = tf.exp(log_scale)
    cosine = tf.matmul(photos, captions, transpose_b=True)
    logits = scale * cosine
    same = tf.cast(photo_object[:, None] == caption_object[None, :], logits.dtype)
    share = same / tf.reduce_sum(same, axis=1, keepdims=True)
    share_back = same / tf.reduce_sum(same, axis=0, keepdims=True)

    n_photos = tf.cast(tf.shape(logits)[0], logits.dtype)
    n_captions = tf.cast(tf.shape(logits)[1], logits.dtype)
    log_rows = tf.nn.log_softmax(logits, axis=1)
    log_cols = tf.nn.log_softmax(logits, axis=0)
    to_caption = -tf.reduce_sum(share * log_rows) / n_photos
    to_photo = -tf.reduce_sum(share_back * log_cols) / n_captions
    loss = 0.5 * (to_caption + to_photo)

    def grad(upstream):
        rows = (tf.exp(log_rows) - share) / n_photos
        cols = (tf.exp(log_cols) - share) / n_captions
        d_logits = 0.5 * upstream * (rows + cols)
        d_photos = scale * tf.matmul(d_logits, captions)
        d_captions = scale * tf.matmul(d_logits, photos, transpose_a=True)
        d_log_scale = tf.reduce_sum(d_logits * logits)
        return d_photos, d_captions, d_log_scale, None, None

    return loss, grad


def make_sense_fusion(average: bool = False):
    """Low-rank fusion of what is known about an object by several senses.

    The returned ``sense_fusion(senses, factors, known)`` takes

      senses   [batch, modalities, dim]: image, text, audio ... vectors,
      factors  [modalities, rank, dim + 1, out], whose last row of dim + 1 is a bias,
      known    bool [batch, modalities],

    and multiplies, for each rank, the projections of the modalities with one
    another; a modality which is not known for an object is left out of the product.
    The ranks are added, or averaged if `average`.  Gives [batch, out].
    """

    @tf.custom_gradient
    def sense_fusion(senses, factors, known):
        kernel, bias = factors[:, :, :-1], factors[:, :, -1]
        projected = tf.einsum("bmd,mrdo->bmro", senses, kernel) + bias
        here = known[:, :, None, None]
        projected = tf.where(here, projected, tf.ones_like(projected))
        fused = tf.reduce_prod(projected, axis=1)
        scale = 1.0 / factors.shape[1] if average else 1.0
        output = scale * tf.reduce_sum(fused, axis=1)

        def grad(upstream):
            earlier = tf.math.cumprod(projected, axis=1, exclusive=True)
            later = tf.math.cumprod(projected, axis=1, exclusive=True, reverse=True)
            d_projected = scale * upstream[:, None, None, :] * earlier * later
            d_projected = tf.where(here, d_projected, tf.zeros_like(d_projected))
            d_senses = tf.einsum("bmro,mrdo->bmd", d_projected, kernel)
            d_kernel = tf.einsum("bmro,bmd->mrdo", d_projected, senses)
            d_bias = tf.reduce_sum(d_projected, axis=0)
            return d_senses, tf.concat([d_kernel, d_bias[:, :, None]], axis=2), None

        return output, grad

    return sense_fusion


@tf.custom_gradient
def visit_memory(stops, keep, start):
    """Leaky memory along a walk: m[t] = keep[t] * m[t-1] + (1 - keep[t]) * stops[t].

    stops [batch, time, dim], keep [batch, time] in (0, 1), and start [batch, dim],
    the memory with which the visitor enters (m[-1]).  Returns all m[t].
    """
    gate = keep[:, :, None]
    memory, states = start, []
    for t in range(stops.shape[1]):
        memory = gate[:, t] * memory + (1.0 - gate[:, t]) * stops[:, t]
        states.append(memory)
    memories = tf.stack(states, axis=1)

    def grad(upstream):
        before = tf.pad(memories[:, :-1], [[0, 0], [1, 0], [0, 0]])
        carried = tf.zeros_like(start)
        d_states = []
        for t in reversed(range(stops.shape[1])):
            carried = carried + upstream[:, t]
            d_states.append(carried)
            carried = gate[:, t] * carried
        d_state = tf.stack(d_states[::-1], axis=1)
        d_stops = (1.0 - gate) * d_state
        d_keep = tf.reduce_sum(d_state * (before - stops), axis=2)
        return d_stops, d_keep, carried

    return memories, grad


def remember(stops, keep, start: Optional[tf.Tensor] = None):
    """`visit_memory`, from an empty memory or from that of an earlier visit."""
    if start is None:
        start = tf.zeros_like(stops[:, 0])
    return visit_memory(stops, keep, start)


class GuideRanker(tf.Module):
    """Ranks what lies ahead of a visitor, given where he has been."""

    def __init__(self, modalities: int, config: GuideConfig = GuideConfig()):
        super().__init__()
        shape = [modalities, config.rank, config.dim + 1, config.dim]
        self.factors = tf.Variable(0.3 * tf.random.normal(shape, seed=3))
        self.log_scale = tf.Variable(config.log_scale)
        self._fuse = make_sense_fusion(config.average)

    def __call__(self, stops, keep, senses, known, ahead, start=None):
        memory = remember(stops, keep, start)[:, -1]
        exhibits = self._fuse(senses, tf.convert_to_tensor(self.factors), known)
        exhibits = tf.tile(exhibits[None], [tf.shape(memory)[0], 1, 1])
        temperature = tf.exp(-tf.convert_to_tensor(self.log_scale))
        return exhibits_ahead_readout(memory, exhibits, ahead, temperature)
