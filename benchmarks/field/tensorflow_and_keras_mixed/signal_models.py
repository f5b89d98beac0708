"""Audio front end, volatility and tagging pieces shared by our sequence models."""
import math

import tensorflow as tf

BACKCAST = 3


def power_to_db(spectrogram, amin=1e-10, top_db=80.0):
    """Power spectrogram -> decibels, floored `top_db` below the loudest cell.

    Parameters
    ----------
    spectrogram : tf.Tensor, shape (frames, bins)
        Non-negative power.
    amin : float
        Smallest power considered.
    top_db : float or None
        Dynamic range kept. None keeps everything.
    """
    scale = 10.0 / math.log(10.0)

    @tf.custom_gradient
    def _to_db(s):
        db = scale * tf.math.log(tf.maximum(s, amin))
        alive = s > amin
        if top_db is not None:
            floor = tf.reduce_max(db) - top_db
            alive = tf.logical_and(alive, db > floor)
            db = tf.maximum(db, floor)

        def _grad(g):
            safe = tf.where(s > amin, s, tf.ones_like(s))
            return tf.where(alive, g * scale / safe, tf.zeros_like(g))

        return db, _grad

    return _to_db(spectrogram)


def magnitude_spectrum(frames, fft_length=None, eps=1e-12):
    """|rfft| of windowed frames.

    Parameters
    ----------
    frames : tf.Tensor, shape (..., frame_length)
    fft_length : int, optional
        Any length >= frame_length (zero padded); frame_length if not given.
        Needs not be a power of two.

    Returns
    -------
    tf.Tensor, shape (..., fft_length // 2 + 1)
    """
    frame_length = int(frames.shape[-1])
    n = fft_length or frame_length

    @tf.custom_gradient
    def _magnitude(x):
        spec = tf.signal.rfft(x, [n])
        mag = tf.sqrt(tf.math.real(spec) ** 2 + tf.math.imag(spec) ** 2 + eps)

        def _grad(g):
            ratio = g / mag
            # irfft counts the inner bins twice, once for their mirror image
            inner = tf.fill([n // 2 - 1], tf.constant(0.5, x.dtype))
            one = tf.ones([1], x.dtype)
            weight = tf.concat([one, inner, one], axis=0) * float(n)
            y = tf.complex(ratio * weight, tf.zeros_like(ratio)) * spec
            return tf.signal.irfft(y, [n])[..., :frame_length]

        return mag, _grad

    return _magnitude(frames)


def oscillator_bank(f0, amplitudes, sample_rate=16000.0):
    """Additive synthesis: sum of harmonics of f0 (Hz).

    f0: (batch, time); amplitudes: (batch, time, harmonics). Harmonics above
    Nyquist are silent. Returns audio (batch, time).
    """
    @tf.custom_gradient
    def _render(f, amps):
        k = tf.range(1, tf.shape(amps)[-1] + 1)
        k = tf.cast(k, f.dtype)
        audible = tf.cast(f[..., None] * k < sample_rate / 2.0, f.dtype)
        omega = 2.0 * math.pi / sample_rate
        phase = tf.cumsum(f * omega, axis=1)
        arg = phase[..., None] * k
        wave = tf.sin(arg) * audible
        audio = tf.reduce_sum(amps * wave, axis=-1)

        def _grad(g):
            d_phase = g * tf.reduce_sum(amps * audible * k * tf.cos(arg), axis=-1)
            d_f = omega * tf.cumsum(d_phase, axis=1, reverse=True)
            return d_f, g[..., None] * wave

        return audio, _grad

    return _render(f0, amplitudes)


@tf.custom_gradient
def garch_nll(returns, omega, alpha, beta):
    """Gaussian GARCH(1,1) negative log-likelihood of B series.

    returns: (T, B); omega, alpha, beta: (B,).
    The variance starts from a backcast, the second moment of the first few returns.
    Output: (B,), constants dropped.
    """
    sq = returns * returns
    steps = int(returns.shape[0])
    h = [tf.reduce_mean(sq[:BACKCAST], axis=0)]
    for t in range(1, steps):
        h.append(omega + alpha * sq[t - 1] + beta * h[-1])
    var = tf.stack(h)
    nll = 0.5 * tf.reduce_sum(tf.math.log(var) + sq / var, axis=0)

    def backward(g):
        local = 0.5 * g * (1.0 / var - sq / (var * var))
        d_sq = tf.unstack(0.5 * g / var)
        d_omega = tf.zeros_like(omega)
        d_alpha = tf.zeros_like(alpha)
        d_beta = tf.zeros_like(beta)
        lam = tf.zeros_like(g)
        for t in reversed(range(1, steps)):
            lam = local[t] + lam
            d_omega += lam
            d_alpha += lam * sq[t - 1]
            d_beta += lam * var[t - 1]
            d_sq[t - 1] += lam * alpha
            lam = lam * beta
        return 2.0 * returns * tf.stack(d_sq), d_omega, d_alpha, d_beta

    return nll, backward


@tf.custom_gradient
def crf_log_norm(potentials, transitions, lengths):
    """Log partition function of a linear chain CRF.

    potentials: (B, T, S), transitions: (S, S) from -> to, lengths: (B,) int,
    each between 1 and T. Output (B,).
    """
    steps = int(potentials.shape[1])
    alphas = [potentials[:, 0]]
    for t in range(1, steps):
        step = tf.reduce_logsumexp(alphas[-1][:, :, None] + transitions[None], axis=1)
        live = (t < lengths)[:, None]
        alphas.append(tf.where(live, step + potentials[:, t], alphas[-1]))
    log_z = tf.reduce_logsumexp(alphas[-1], axis=-1)

    def backward(g):
        d_pot = [None] * steps
        d_trans = tf.zeros_like(transitions)
        # adjoint of the state scores, carried from the last step
        lam = g[:, None] * tf.nn.softmax(alphas[-1], axis=-1)
        for t in reversed(range(1, steps)):
            live = (t < lengths)[:, None]
            lam_t = tf.where(live, lam, tf.zeros_like(lam))
            d_pot[t] = lam_t
            w = tf.nn.softmax(alphas[t - 1][:, :, None] + transitions[None], axis=1)
            edge = w * lam_t[:, None, :]
            d_trans += tf.reduce_sum(edge, axis=0)
            lam = tf.where(live, tf.reduce_sum(edge, axis=2), lam)
        d_pot[0] = lam
        return tf.stack(d_pot, axis=1), d_trans, None

    return log_z, backward


def crf_nll(potentials, transitions, lengths, tags):
    """Negative log-likelihood of tag sequences; tags (B, T) int."""
    steps = tf.shape(potentials)[1]
    mask = tf.sequence_mask(lengths, steps, dtype=potentials.dtype)
    unary = tf.gather(potentials, tags, batch_dims=2) * mask
    pair = tf.gather_nd(transitions, tf.stack([tags[:, :-1], tags[:, 1:]], -1)) * mask[:, 1:]
    score = tf.reduce_sum(unary, 1) + tf.reduce_sum(pair, 1)
    return crf_log_norm(potentials, transitions, lengths) - score
