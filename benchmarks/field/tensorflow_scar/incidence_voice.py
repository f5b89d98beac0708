"""Keras pieces of the meeting-analysis model: hyperedges of speakers, voice distances."""
import math

import keras
from keras import ops


class HypergraphMix(keras.layers.Layer):
    def __init__(self, incidence, degree="count", **kwargs):
        super().__init__(**kwargs)
        self.incidence = incidence
        self.degree = degree
        self.mix = self._make_mix()

    def build(self, input_shape):
        self.edge_weight = self.add_weight(
            shape=(len(self.incidence[0]),), initializer="ones", name="edge_weight"
        )

    def call(self, x):
        return self.mix(x, ops.softplus(self.edge_weight))

    def _make_mix(self):
        weighted = self.degree == "weighted"

        @ops.custom_gradient
        def mix(x, edge_weight):
            h = ops.convert_to_tensor(self.incidence, dtype=keras.backend.standardize_dtype(x.dtype))
            member = h * edge_weight if weighted else h
            inv = 1.0 / ops.sqrt(ops.sum(member, axis=1))
            size = ops.sum(h, axis=0)
            a = h * inv[:, None]
            at_edge = (ops.transpose(a) @ x) / size[:, None]
            y = a @ (at_edge * edge_weight[:, None])

            def grad(*args, upstream=None):
                dy = upstream if upstream is not None else args[0]
                back = ops.transpose(a) @ dy
                dx = a @ (back * (edge_weight / size)[:, None])
                dw = ops.sum(back * at_edge, axis=-1)
                if len(dw.shape) > 1:
                    dw = ops.sum(dw, axis=tuple(range(len(dw.shape) - 1)))
                return dx, dw

            return y, grad

        return mix


def mel_cepstral_distortion(pred, target, lengths, skip_energy=True):
    """Mean MCD in dB over the valid frames of [batch, time, order]; zero at equal frames."""
    scale = 10.0 * math.sqrt(2.0) / math.log(10.0)
    steps = ops.arange(pred.shape[1])
    keep = steps[None, :] < ops.reshape(lengths, (-1, 1))

    @ops.custom_gradient
    def _mcd(pred, target):
        diff = pred - target
        if skip_energy:
            diff = ops.concatenate([ops.zeros_like(diff[..., :1]), diff[..., 1:]], axis=-1)
        dist = ops.sqrt(ops.sum(diff * diff, axis=-1))
        mask = ops.cast(keep, keras.backend.standardize_dtype(dist.dtype))
        frames = ops.maximum(ops.sum(mask, axis=1), 1.0)
        per_utterance = scale * ops.sum(dist * mask, axis=1) / frames

        def grad(*args, upstream=None):
            dy = upstream if upstream is not None else args[0]
            some = dist > 0
            unit = ops.where(some, 1.0 / ops.where(some, dist, 1.0), 0.0)
            w = scale * mask * unit * (dy / frames)[:, None]
            d = w[..., None] * diff
            return d, -d

        return per_utterance, grad

    return _mcd(pred, target)
