"""Which birds sang, and when: heads of a dawn chorus recogniser (TensorFlow).

A clip is an hour-before-sunrise field recording, cut to frames.  The encoder (not in this file) gives a score for
every frame and species, and this file has what comes before and after it:

* the front end works on *residual* band energies, i.e. on the log-free spectrogram after the running median of each
  band was taken off.  Residuals have either sign: a band that falls silent is as much a cue as one that wakes;
* the pooling over frames is learned for each species.  A corn bunting sings once in a while, a skylark for minutes;
* recordings were labelled by volunteers who ticked only the species that they felt sure of.

The gradients are written out because the recogniser is trained on long clips on a small machine and the tapes of the
composed forms kept every frame-sized intermediate.
"""
import tensorflow as tf

UNKNOWN = -1


@tf.custom_gradient
def signed_root(residual, exponent, offset):
    """Root compression of signed residuals, one trainable exponent for each band.

        out = sign(r) * ((|r| + offset) ** exponent - offset ** exponent)

    Args:
      residual: float tensor [clip, frame, band].
      exponent: float tensor [band], usually 0.2 to 0.7.
      offset: positive scalar tensor; not trained.

    Returns:
      Tensor like `residual`.
    """
    size = tf.abs(residual) + offset
    raised = size ** exponent
    floor = offset ** exponent
    out = tf.sign(residual) * (raised - floor)

    def grad(upstream):
        d_residual = upstream * exponent * size ** (exponent - 1.0)
        slope = raised * tf.math.log(size) - floor * tf.math.log(offset)
        d_exponent = tf.reduce_sum(upstream * slope, axis=[0, 1])
        return d_residual, d_exponent, None

    return out, grad


@tf.custom_gradient
def auto_pool(scores, present, sharpness):
    """Pool frame scores to clip scores with a softmax weighting of learned sharpness.

    Sharpness 0 is the mean over the frames, large values come near to the maximum, negative ones to the minimum.

    Args:
      scores: [clip, frame, species].
      present: bool [clip, frame]; False for the padding behind the end of a clip.
      sharpness: [species].

    Returns:
      [clip, species].  A clip without any frame gets 0 for all species.
    """
    keep = tf.cast(present, scores.dtype)[:, :, None]
    raw = tf.where(keep > 0, sharpness * scores, tf.constant(-1e30, scores.dtype))
    top = tf.reduce_max(raw, axis=1, keepdims=True)
    mass = tf.exp(raw - top) * keep
    total = tf.reduce_sum(mass, axis=1, keepdims=True)
    weight = tf.math.divide_no_nan(mass, total)
    pooled = tf.reduce_sum(weight * scores, axis=1)

    def grad(upstream):
        above = scores - pooled[:, None, :]
        lift = weight * upstream[:, None, :]
        d_scores = lift * (1.0 + sharpness * above)
        d_sharpness = tf.reduce_sum(lift * above * above, axis=[0, 1])
        return d_scores, None, d_sharpness

    return pooled, grad


def make_competing_readout(epsilon=1e-6):
    """Attention in which the *queries* compete for each frame (one query for each singer in the hedge).

    The returned function takes queries [clip, singer, depth], keys [clip, frame, depth], values [clip, frame, width]
    and a bool mask [clip, frame].  Each real frame is shared out over the singers by a softmax, after which every
    singer takes the mean of the values under its own shares.
    """

    @tf.custom_gradient
    def competing_readout(queries, keys, values, present):
        scale = tf.math.rsqrt(tf.cast(tf.shape(keys)[-1], keys.dtype))
        real = tf.cast(present, keys.dtype)[:, None, :]
        share = tf.nn.softmax(scale * tf.matmul(queries, keys, transpose_b=True), axis=1)
        held = share * real
        held_sum = tf.reduce_sum(held, axis=2, keepdims=True) + epsilon
        weight = held / held_sum
        out = tf.matmul(weight, values)

        def grad(upstream):
            d_values = tf.matmul(weight, upstream, transpose_a=True)
            d_weight = tf.matmul(upstream, values, transpose_b=True)
            inner = tf.reduce_sum(d_weight * weight, axis=2, keepdims=True)
            d_share = real * (d_weight - inner) / held_sum
            mean = tf.reduce_sum(d_share * share, axis=1, keepdims=True)
            d_logits = scale * share * (d_share - mean)
            d_queries = tf.matmul(d_logits, keys)
            d_keys = tf.matmul(d_logits, queries, transpose_a=True)
            return d_queries, d_keys, d_values, None

        return out, grad

    return competing_readout


@tf.custom_gradient
def ticked_species_loss(logits, ticks):
    """Binary cross entropy over the species a volunteer was sure of.

    `logits` is [clip, species].  `ticks` is an integer table of the same shape: 1 heard, 0 certainly not there, and
    UNKNOWN (-1) for no statement.  Every clip counts alike: the loss of a clip is the mean over its stated species,
    and the loss of the batch is the mean over those clips that have at least one statement.
    """
    stated = tf.cast(tf.not_equal(ticks, UNKNOWN), logits.dtype)
    heard = tf.cast(tf.equal(ticks, 1), logits.dtype)
    entry = tf.nn.softplus(logits) - heard * logits
    per_clip = tf.reduce_sum(stated, axis=1)
    clip_loss = tf.math.divide_no_nan(tf.reduce_sum(stated * entry, axis=1), per_clip)
    clips = tf.reduce_sum(tf.cast(per_clip > 0, logits.dtype))
    loss = tf.math.divide_no_nan(tf.reduce_sum(clip_loss), clips)

    def grad(upstream):
        error = stated * (tf.sigmoid(logits) - heard)
        return upstream * tf.math.divide_no_nan(error, tf.reduce_sum(stated)), None

    return loss, grad


class ChorusHead(tf.Module):
    """Compression, frame scores by a linear map, learned pooling."""

    def __init__(self, bands, species, seed=0):
        super().__init__()
        init = tf.random.stateless_normal([bands, species], [seed, 1]) / bands ** 0.5
        self.exponent = tf.Variable(tf.fill([bands], 0.5))
        self.kernel = tf.Variable(init)
        self.sharpness = tf.Variable(tf.ones([species]))

    def __call__(self, residual, present):
        low = signed_root(residual, tf.convert_to_tensor(self.exponent), tf.constant(0.1))
        frame_scores = tf.einsum("cfb,bs->cfs", low, self.kernel)
        return auto_pool(frame_scores, present, tf.convert_to_tensor(self.sharpness))
