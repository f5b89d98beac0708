"""Classifier parts for the free-text notes of a veterinary clinic.

A receptionist types a few lines while the owner is on the phone; a small model reads the note and sends the animal to one of
the clinic's desks (emergency, dental, skin, ...).  The pieces here have hand-written derivatives because the tables are large
and the automatic ones kept dense intermediates of the size of the vocabulary.
"""
from dataclasses import dataclass

import tensorflow as tf


@dataclass(frozen=True)
class NoteFormat:
    """How a note is turned into word ids."""

    pad_id: int = 0
    max_words: int = 24
    floor: float = 1.0


def pad_notes(notes, fmt=NoteFormat()):
    """Cut or pad lists of word ids to ``fmt.max_words``."""
    rows = []
    for words in notes:
        words = list(words)[: fmt.max_words]
        rows.append(words + [fmt.pad_id] * (fmt.max_words - len(words)))
    return tf.constant(rows, tf.int32)


def make_symptom_bag(fmt=NoteFormat()):
    """Returns ``symptom_bag(table, severity, ids)``, the severity weighted mean of the word vectors of a note.

    table:    [vocabulary, width]
    severity: [notes, words], non-negative; how alarming each word sounds to the tagger
    ids:      [notes, words], integers; words that equal ``fmt.pad_id`` do not count

    The divisor is the summed severity of the note, but never less than ``fmt.floor``: a note in which nothing sounds alarming
    keeps a small vector instead of being blown up to full length.
    """

    @tf.custom_gradient
    def symptom_bag(table, severity, ids):
        counted = tf.cast(tf.not_equal(ids, fmt.pad_id), table.dtype)
        weight = severity * counted
        vectors = tf.gather(table, ids)
        total = tf.reduce_sum(weight, axis=-1, keepdims=True)
        divisor = tf.maximum(total, tf.cast(fmt.floor, table.dtype))
        share = weight / divisor
        bag = tf.einsum("nw,nwd->nd", share, vectors)

        def grad(upstream):
            spread = share[..., None] * upstream[:, None, :]
            d_table = tf.math.unsorted_segment_sum(
                tf.reshape(spread, [-1, tf.shape(table)[1]]), tf.reshape(ids, [-1]), tf.shape(table)[0]
            )
            along = tf.einsum("nwd,nd->nw", vectors, upstream)
            centre = tf.reduce_sum(bag * upstream, axis=-1, keepdims=True)
            d_severity = counted * (along - centre) / divisor
            return d_table, d_severity, None

        return bag, grad

    return symptom_bag


@tf.custom_gradient
def breed_prior_scores(logits, log_prior, temperature, breed):
    """Log probabilities of the complaints, given the note and the breed of the animal.

    Args:
      logits: note scores, shape [..., complaints].
      log_prior: one row of log frequencies a breed, shape [breeds, complaints]; rows need not be normalised.
      temperature: positive scalar that softens the note scores (not the prior).
      breed: integer tensor of shape [...]; several animals may be of one breed.

    Returns:
      The pair (log probabilities [..., complaints], log partition [...]).
    """
    scores = logits / temperature + tf.gather(log_prior, breed)
    log_partition = tf.reduce_logsumexp(scores, axis=-1)
    log_probs = scores - log_partition[..., None]

    def grad(d_log_probs, d_log_partition):
        p = tf.exp(log_probs)
        surplus = d_log_partition - tf.reduce_sum(d_log_probs, axis=-1)
        d_scores = d_log_probs + p * surplus[..., None]
        width = tf.shape(log_prior)[1]
        d_prior = tf.math.unsorted_segment_sum(
            tf.reshape(d_scores, [-1, width]), tf.reshape(breed, [-1]), tf.shape(log_prior)[0]
        )
        d_temperature = -tf.reduce_sum(d_scores * logits) / tf.square(temperature)
        return d_scores / temperature, d_prior, d_temperature, None

    return (log_probs, log_partition), grad


@tf.custom_gradient
def triage_cost(logits, costs, labels):
    """Mean expected cost of sending animals to the wrong desk.

    `costs[i, j]` is what it costs (in minutes lost) to send an animal that belongs to desk i to desk j.  `logits` is
    [notes, desks], `labels` [notes] holds the desk at which the animal was treated in the end.
    """
    desks = tf.shape(costs)[0]
    p = tf.nn.softmax(logits, axis=-1)
    belongs = tf.one_hot(labels, desks, dtype=logits.dtype)
    by_desk = tf.matmul(p, costs, transpose_b=True)  # [notes, desks]: expected cost, were it an animal of desk i
    per_note = tf.reduce_sum(belongs * by_desk, axis=-1)
    notes = tf.cast(tf.shape(logits)[0], logits.dtype)

    def grad(upstream):
        scale = upstream / notes
        price = tf.matmul(belongs, costs, transpose_b=True)
        mean_price = tf.reduce_sum(p * price, axis=-1, keepdims=True)
        d_logits = scale * p * (price - mean_price)
        d_costs = scale * tf.matmul(belongs, p, transpose_a=True)
        return d_logits, d_costs, None

    return tf.reduce_mean(per_note), grad


class DeskModel(tf.Module):
    """Bag of words, one linear layer, breed prior."""

    def __init__(self, vocabulary, desks, breeds, width=16, fmt=NoteFormat()):
        super().__init__()
        self.table = tf.Variable(tf.random.stateless_normal([vocabulary, width], seed=[3, 1], stddev=0.1))
        self.kernel = tf.Variable(tf.random.stateless_normal([width, desks], seed=[3, 2], stddev=0.1))
        self.prior = tf.Variable(tf.zeros([breeds, desks]))
        self.bag = make_symptom_bag(fmt)

    def __call__(self, ids, severity, breed):
        note = self.bag(tf.convert_to_tensor(self.table), severity, ids)
        log_probs, _ = breed_prior_scores(note @ self.kernel, tf.convert_to_tensor(self.prior), tf.constant(1.0), breed)
        return log_probs
