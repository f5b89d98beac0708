"""Count based text models: skip-gram embeddings and Polya-urn topic scores."""
import numpy as np
import tensorflow as tf


def unigram_sampler(frequencies, power=0.75, seed=0):
    """Noise distribution of word2vec; returns ``draw(batch, k) -> int32``."""
    p = np.asarray(frequencies, np.float64) ** power
    p /= p.sum()
    rng = np.random.default_rng(seed)

    def draw(batch, k):
        return rng.choice(p.size, size=(batch, k), p=p).astype(np.int32)

    return draw


@tf.custom_gradient
def skipgram_negative_loss(center, context, negatives, in_table, out_table):
    """Skip-gram loss with negative sampling, averaged over the batch.

    The two tables get dense gradients built in one segment sum each, which on
    CPU is a good deal quicker than the IndexedSlices that ``tf.gather`` makes.
    Noise words are drawn without looking at the pair, so a draw may coincide
    with the true context word; such draws contribute nothing to the loss.

    Args:
        center: int ids ``[B]``.
        context: int ids ``[B]``.
        negatives: int ids ``[B, K]``. Ids may repeat anywhere.
        in_table: ``[V, D]`` input vectors.
        out_table: ``[V, D]`` output vectors.

    Returns:
        Scalar loss.
    """
    vocab = tf.shape(in_table)[0]
    h = tf.gather(in_table, center)
    pos = tf.gather(out_table, context)
    neg = tf.gather(out_table, negatives)
    pos_logit = tf.reduce_sum(h * pos, axis=-1)
    neg_logit = tf.einsum("bd,bkd->bk", h, neg)
    hit = tf.equal(negatives, context[:, None])
    noise = tf.where(hit, tf.zeros_like(neg_logit), tf.nn.softplus(neg_logit))
    loss = tf.reduce_mean(tf.nn.softplus(-pos_logit) + tf.reduce_sum(noise, axis=-1))

    def grad(dloss):
        scale = dloss / tf.cast(tf.shape(center)[0], h.dtype)
        pos_err = scale * (tf.sigmoid(pos_logit) - 1.0)
        neg_err = scale * tf.sigmoid(neg_logit)

        d_h = pos_err[:, None] * pos + tf.einsum("bk,bkd->bd", neg_err, neg)
        d_in = tf.math.unsorted_segment_sum(d_h, center, vocab)

        ids = tf.concat([context[:, None], negatives], axis=1)
        err = tf.concat([pos_err[:, None], neg_err], axis=1)
        d_out = tf.math.unsorted_segment_sum(err[..., None] * h[:, None, :], ids, vocab)
        return None, None, None, d_in, d_out

    return loss, grad


@tf.custom_gradient
def dirichlet_multinomial_loglik(counts, alpha):
    """log p(counts | alpha) of each document under a Polya urn, w/o the coefficient.

    ``counts`` is an integer matrix [docs, words]; ``alpha`` > 0 is either one
    concentration vector [words] shared by the corpus or one per document
    [docs, words]. Returns [docs]. Empty documents have log likelihood 0.
    """
    n = tf.cast(counts, alpha.dtype)
    shared = alpha.shape.rank == 1
    post = alpha + n
    total = tf.reduce_sum(alpha, axis=-1, keepdims=True)
    length = tf.reduce_sum(n, axis=-1, keepdims=True)
    loglik = tf.squeeze(tf.math.lgamma(total) - tf.math.lgamma(total + length), -1)
    loglik += tf.reduce_sum(tf.math.lgamma(post) - tf.math.lgamma(alpha), axis=-1)

    def grad(upstream):
        per_doc = tf.math.digamma(total) - tf.math.digamma(total + length)
        d = upstream[:, None] * (per_doc + tf.math.digamma(post) - tf.math.digamma(alpha))
        return None, tf.reduce_sum(d, axis=0) if shared else d

    return loglik, grad


def multinomial_coefficient(counts, dtype=tf.float32):
    n = tf.cast(counts, dtype)
    return tf.math.lgamma(tf.reduce_sum(n, -1) + 1.0) - tf.reduce_sum(tf.math.lgamma(n + 1.0), -1)


def fit_concentration(counts, steps=200, rate=0.05):
    """Empirical Bayes for the shared concentration. Returns a numpy vector."""
    log_alpha = tf.Variable(tf.zeros([counts.shape[-1]]))
    opt = tf.keras.optimizers.Adam(rate)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = -tf.reduce_mean(dirichlet_multinomial_loglik(counts, tf.exp(log_alpha)))
        opt.apply_gradients([(tape.gradient(loss, log_alpha), log_alpha)])
    return np.exp(log_alpha.numpy())


def train_skipgram(pairs, vocab, dim=32, k=5, epochs=1, batch=256, rate=0.5, seed=0):
    init = tf.random.Generator.from_seed(seed)
    w_in = tf.Variable(init.uniform([vocab, dim], -0.5 / dim, 0.5 / dim))
    w_out = tf.Variable(tf.zeros([vocab, dim]))
    draw = unigram_sampler(np.bincount(pairs[:, 1], minlength=vocab) + 1e-6, seed=seed)
    for _ in range(epochs):
        for i in range(0, len(pairs), batch):
            chunk = pairs[i : i + batch].astype(np.int32)
            neg = draw(len(chunk), k)
            with tf.GradientTape() as tape:
                loss = skipgram_negative_loss(
                    tf.constant(chunk[:, 0]), tf.constant(chunk[:, 1]), tf.constant(neg),
                    w_in.read_value(), w_out.read_value(),
                )
            for v, g in zip((w_in, w_out), tape.gradient(loss, (w_in, w_out))):
                v.assign_sub(rate * g)
    return w_in.numpy()
