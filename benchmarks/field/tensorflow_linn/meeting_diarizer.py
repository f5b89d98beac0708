"""End-to-end speaker diarization: objectives and pooling."""

import itertools

import keras
import numpy as np
from keras import ops


def _assignments(n_speakers):
    perms = list(itertools.permutations(range(n_speakers)))
    return np.eye(n_speakers)[np.asarray(perms)]


def pit_loss(logits, labels, frame_mask=None):
    """Permutation-free binary cross-entropy.

    Every meeting is scored under the assignment of output channels to
    reference speakers that costs it least; the loss is the mean over valid
    frames, channels and meetings.

    Args:
        logits: `[B, T, S]` activity logits of the S output channels.
        labels: `[B, T, S]` reference activities in `[0, 1]`, taken as constants.
        frame_mask: optional `[B, T]`, nonzero at the valid frames.

    Returns:
        Scalar loss.
    """
    logits = ops.convert_to_tensor(logits)
    labels = ops.cast(labels, logits.dtype)
    batch, _, n_speakers = logits.shape
    if frame_mask is None:
        frame_mask = ops.ones_like(labels[..., 0])
    mask = ops.cast(frame_mask, logits.dtype)
    weight = mask / ops.maximum(ops.sum(mask, axis=1, keepdims=True), 1.0)
    weight = weight[..., None] / (batch * n_speakers)
    table = ops.cast(ops.convert_to_tensor(_assignments(n_speakers)), logits.dtype)

    @ops.custom_gradient
    def permutation_free(logits):
        base = ops.sum(weight * ops.softplus(logits), axis=1)
        cross = ops.einsum("bts,btr->bsr", weight * logits, labels)
        cost = base[:, :, None] - cross
        totals = ops.einsum("bsr,psr->bp", cost, table)
        chosen = ops.take(table, ops.argmin(totals, axis=-1), axis=0)
        loss = ops.sum(ops.min(totals, axis=-1))

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            matched = ops.einsum("btr,brs->bts", labels, chosen)
            return g * weight * (ops.sigmoid(logits) - matched)

        return loss, grad

    return permutation_free(logits)


class Powerset(keras.layers.Layer):
    """Turns powerset logits `[..., P]` into log-probabilities of activity `[..., S]`."""

    def __init__(self, n_speakers, max_simultaneous=2, **kwargs):
        super().__init__(**kwargs)
        sets = [
            c
            for k in range(max_simultaneous + 1)
            for c in itertools.combinations(range(n_speakers), k)
        ]
        member = np.zeros((len(sets), n_speakers), dtype=bool)
        for row, speakers in enumerate(sets):
            member[row, list(speakers)] = True
        self.member = member

    def call(self, inputs):
        return powerset_log_activity(inputs, self.member)


def powerset_log_activity(logits, member):
    member = ops.convert_to_tensor(member)

    @ops.custom_gradient
    def log_activity_of(logits):
        spread = ops.where(member, logits[..., None], -1e30)
        total = ops.logsumexp(logits, axis=-1, keepdims=True)
        active = ops.logsumexp(spread, axis=-2)

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            within = ops.exp(spread - active[..., None, :])
            overall = ops.exp(logits - total)
            pulled = ops.sum(within * g[..., None, :], axis=-1)
            return pulled - overall * ops.sum(g, axis=-1, keepdims=True)

        return active - total, grad

    return log_activity_of(logits)


def _solo(weights):
    n = weights.shape[-1]
    eye = ops.cast(ops.eye(n), weights.dtype)
    silent = eye + (1.0 - eye) * (1.0 - weights[..., None, :])
    return ops.prod(silent, axis=-1)


def speaker_centroids(frames, activity, exclude_overlap=False, eps=1e-6):
    """Activity-weighted mean frame of each speaker, [B, T, D] and [B, T, S] -> [B, S, D]."""

    @ops.custom_gradient
    def centroids_of(frames, activity):
        solo = _solo(activity) if exclude_overlap else ops.ones_like(activity)
        w = activity * solo
        norm = ops.sum(w, axis=1)[..., None] + eps
        mean = ops.einsum("bts,btd->bsd", w, frames) / norm

        def grad(*args, upstream=None):
            g = upstream if upstream is not None else args[0]
            g = g / norm
            d_frames = ops.einsum("bts,bsd->btd", w, g)
            d_w = ops.einsum("btd,bsd->bts", frames, g)
            d_w = d_w - ops.sum(g * mean, axis=-1)[:, None, :]
            return d_frames, d_w * solo

        return mean, grad

    return centroids_of(frames, activity)
