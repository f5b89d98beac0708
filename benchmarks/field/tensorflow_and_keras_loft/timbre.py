import numpy as np
import tensorflow as tf

# third-order Lagrange basis on the nodes -1, 0, 1, 2; rows are taps, columns are powers of f
_LAGRANGE = np.array(
    [
        [0.0, -1.0 / 3.0, 0.5, -1.0 / 6.0],
        [1.0, -0.5, -1.0, 0.5],
        [0.0, 1.0, 0.5, -0.5],
        [0.0, -1.0 / 6.0, 0.0, 1.0 / 6.0],
    ]
)


def _taps(fraction):
    basis = tf.constant(_LAGRANGE, fraction.dtype)
    one = tf.ones_like(fraction)
    powers = tf.stack([one, fraction, fraction**2, fraction**3], axis=-1)
    slopes = tf.stack([0.0 * one, one, 2.0 * fraction, 3.0 * fraction**2], axis=-1)
    return tf.einsum("kp,bp->bk", basis, powers), tf.einsum("kp,bp->bk", basis, slopes)


def _inside(index, size, dtype):
    return tf.cast((index >= 0) & (index < size), dtype)


@tf.custom_gradient
def lagrange_delay(signal, delay):
    # signal (batch, time, channels), delay (batch,) in samples, at least one sample
    size = tf.shape(signal)[1]
    whole = tf.floor(delay)
    weights, slopes = _taps(delay - whole)
    shift = tf.cast(whole, tf.int32)[:, None, None] + tf.range(-1, 3)[None, None, :]
    source = tf.range(size)[None, :, None] - shift
    keep = _inside(source, size, signal.dtype)
    at = tf.clip_by_value(source, 0, size - 1)
    gathered = tf.gather(signal, at, axis=1, batch_dims=1) * keep[..., None]
    out = tf.einsum("btkc,bk->btc", gathered, weights)

    def grad(dout):
        d_delay = tf.einsum("btc,btkc,bk->b", dout, gathered, slopes)
        target = tf.range(size)[None, :, None] + shift
        ahead = tf.gather(dout, tf.clip_by_value(target, 0, size - 1), axis=1, batch_dims=1)
        ahead *= _inside(target, size, dout.dtype)[..., None]
        return tf.einsum("btkc,bk->btc", ahead, weights), d_delay

    return out, grad


@tf.custom_gradient
def spectral_convergence(estimate, reference):
    residual = reference - estimate
    error = tf.sqrt(tf.reduce_sum(tf.square(residual), axis=[-2, -1], keepdims=True))
    level = tf.sqrt(tf.reduce_sum(tf.square(reference), axis=[-2, -1], keepdims=True))
    ratio = error / level

    def grad(upstream):
        upstream = upstream[..., None, None]
        pull = tf.math.divide_no_nan(residual, error * level)
        return -upstream * pull, upstream * (pull - ratio * reference / tf.square(level))

    return tf.squeeze(ratio, axis=[-2, -1]), grad


def make_phaser_stage(depth=0.3, dtype=tf.float32):
    knob = tf.Variable(depth, dtype=dtype, name="depth")

    @tf.custom_gradient
    def stage(x):
        a = tf.tanh(knob)
        frames = tf.unstack(x, axis=1)
        silence = tf.zeros_like(frames[0])
        past_in, past_out = [silence] + frames[:-1], [silence]
        for now, before in zip(frames, past_in):
            past_out.append(before + a * (past_out[-1] - now))
        out = tf.stack(past_out[1:], axis=1)
        lagged = tf.stack(past_out[:-1], axis=1)

        def grad(dout, variables=None):
            carry = tf.zeros_like(silence)
            adjoint = []
            for piece in reversed(tf.unstack(dout, axis=1)):
                carry = piece + a * carry
                adjoint.append(carry)
            adjoint = tf.stack(adjoint[::-1], axis=1)
            shifted = tf.concat([adjoint[:, 1:], tf.zeros_like(adjoint[:, :1])], axis=1)
            d_a = tf.reduce_sum(dout * (lagged - x))
            d_knob = d_a * (1.0 - a * a)
            return shifted - a * adjoint, [d_knob]

        return out, grad

    stage.depth = knob
    return stage


class Phaser(tf.Module):
    def __init__(self, stages=4, mix=0.5, name=None):
        super().__init__(name=name)
        self.stages = [make_phaser_stage(0.1 * (k + 1)) for k in range(stages)]
        self.mix = mix

    @property
    def depths(self):
        return [stage.depth for stage in self.stages]

    def __call__(self, frames):  # (batch, time)
        wet = frames
        for stage in self.stages:
            wet = stage(wet)
        return (1.0 - self.mix) * frames + self.mix * wet


class Doubler(tf.Module):
    def __init__(self, voices=2, base=8.0, spread=1.7, name=None):
        super().__init__(name=name)
        self.delays = tf.Variable(base + spread * np.arange(voices, dtype="float32"))

    def __call__(self, signal):  # (batch, time, channels)
        batch = tf.shape(signal)[0]
        out = signal
        for k in range(self.delays.shape[0]):
            out += lagrange_delay(signal, tf.fill([batch], self.delays[k]))
        return out


def magnitude(signal, frame=64, hop=16):
    return tf.abs(tf.signal.stft(signal, frame, hop))


def stft_loss(estimate, reference, resolutions=((64, 16), (128, 32))):
    total = 0.0
    for frame, hop in resolutions:
        total += spectral_convergence(
            magnitude(estimate, frame, hop), magnitude(reference, frame, hop)
        )
    return total / len(resolutions)
