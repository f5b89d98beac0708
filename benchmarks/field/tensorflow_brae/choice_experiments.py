"""Likelihood pieces for the lab's test and response-time models (items, decisions, detection)."""
import tensorflow as tf

MISSING = -1


def _unbroadcast(x, like):
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(x))
    return tf.reshape(tf.reduce_sum(x, axes), tf.shape(like))


@tf.custom_gradient
def gpcm_log_prob(ability, discrimination, steps, responses):
    """Generalised partial credit model (Muraki 1992), log-likelihood of each person.

    The probability that person p reaches category k = 0..K of item i is proportional to

        exp( sum_{h=1..k} a_i (theta_p - b_ih) ),

    the empty sum of category 0 being zero.

    Args:
      ability: theta, [persons].
      discrimination: a, [items].
      steps: step difficulties b, [items, K]; they need not be ordered.
      responses: int, [persons, items], the category 0..K reached, or `MISSING` (-1) where the item was not presented;
        such cells contribute nothing.

    Returns:
      [persons], the sum of log-probabilities over the items presented to each.
    """
    num_steps = tf.shape(steps)[-1]
    zeros = tf.zeros_like(steps[:, :1])
    rank = tf.cast(tf.range(num_steps + 1), responses.dtype)
    score = tf.cast(rank, ability.dtype)                                        # [K+1]
    cum_steps = tf.concat([zeros, tf.cumsum(steps, axis=-1)], axis=-1)          # [I, K+1]
    kernel = score * ability[:, None, None] - cum_steps                         # [P, I, K+1]
    log_p = tf.nn.log_softmax(discrimination[:, None] * kernel, axis=-1)

    presented = tf.not_equal(responses, MISSING)
    hit = tf.cast(tf.equal(responses[..., None], rank), log_p.dtype)            # all-zero row where missing
    out = tf.reduce_sum(hit * log_p, axis=[1, 2])

    def grad(upstream):
        resid = tf.where(presented[..., None], hit - tf.exp(log_p), tf.zeros_like(log_p))
        resid *= upstream[:, None, None]
        d_kernel = resid * discrimination[:, None]
        d_ability = tf.reduce_sum(d_kernel * score, axis=[1, 2])
        d_disc = tf.reduce_sum(resid * kernel, axis=[0, 2])
        # step h enters the categories h, h+1, ..., K
        tail = tf.cumsum(d_kernel, axis=-1, reverse=True)[..., 1:]
        d_steps = -tf.reduce_sum(tail, axis=0)
        return d_ability, d_disc, d_steps, None

    return out, grad


@tf.custom_gradient
def decision_time(drift, boundary, bias, residual):
    """(P(upper), mean RT) of a unit-noise diffusion with drift > 0 that starts at bias*boundary; residual adds to RT."""
    start = bias * boundary
    e_start = tf.exp(-2.0 * drift * start)
    e_bound = tf.exp(-2.0 * drift * boundary)
    den = -tf.math.expm1(-2.0 * drift * boundary)
    p_upper = -tf.math.expm1(-2.0 * drift * start) / den
    mean_dt = (boundary * p_upper - start) / drift

    def grad(d_p, d_rt):
        p_v = 2.0 * (start * e_start - p_upper * boundary * e_bound) / den
        p_a = 2.0 * drift * (bias * e_start - p_upper * e_bound) / den
        p_w = 2.0 * drift * boundary * e_start / den

        t_v = (boundary * p_v - mean_dt) / drift
        t_a = (p_upper + boundary * p_a - bias) / drift

        return (
            _unbroadcast(d_p * p_v + d_rt * t_v, drift),
            _unbroadcast(d_p * p_a + d_rt * t_a, boundary),
            _unbroadcast(d_p * p_w, bias),
            _unbroadcast(d_rt, residual),
        )

    return (p_upper, mean_dt + residual), grad


def make_weibull_observer(hits, trials, n_alternatives=2):
    """n-AFC Weibull psychometric likelihood; ``hits`` and ``trials`` are [observers, levels]."""
    guess = 1.0 / n_alternatives

    @tf.custom_gradient
    def psychometric_nll(contrast, threshold, slope, lapse):
        """[observers] from contrast > 0 and threshold, slope > 0, 0 < lapse < 1 - guess, all broadcasting to hits."""
        h = tf.cast(hits, contrast.dtype)
        n = tf.cast(trials, contrast.dtype)
        log_ratio = tf.math.log(contrast) - tf.math.log(threshold)
        u = tf.exp(slope * log_ratio)
        miss = tf.exp(-u)
        span = 1.0 - guess - lapse
        q = lapse + span * miss
        p = guess - span * tf.math.expm1(-u)
        nll = -tf.reduce_sum(h * tf.math.log(p) + (n - h) * tf.math.log(q), axis=-1)

        def grad(upstream):
            d_p = upstream[:, None] * ((n - h) / q - h / p)
            d_log_u = d_p * span * miss * u
            return (
                _unbroadcast(d_log_u * slope / contrast, contrast),
                _unbroadcast(-d_log_u * slope / threshold, threshold),
                _unbroadcast(d_log_u * log_ratio, slope),
                _unbroadcast(d_p * tf.math.expm1(-u), lapse),
            )

        return nll, grad

    return psychometric_nll
