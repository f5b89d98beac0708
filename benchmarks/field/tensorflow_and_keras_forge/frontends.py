"""Input encodings and memory-saving stacks."""

import itertools

import numpy as np
import tensorflow as tf

_PRIMES = (1, 2654435761, 805459861)


class PointwiseBlock(tf.Module):
    """Two dense maps with a tanh between them."""

    def __init__(self, width, hidden, seed=0, dtype=tf.float32, name=None):
        super().__init__(name=name)
        rng = np.random.RandomState(seed)
        self.w_in = tf.Variable(rng.normal(size=(width, hidden)) / np.sqrt(width), dtype=dtype)
        self.b_in = tf.Variable(tf.zeros([hidden], dtype))
        self.w_out = tf.Variable(rng.normal(size=(hidden, width)) / np.sqrt(hidden), dtype=dtype)

    def __call__(self, x):
        return tf.matmul(tf.tanh(tf.matmul(x, self.w_in) + self.b_in), self.w_out)


class MomentumStack(tf.Module):
    """Residual blocks with a velocity, which can be run backwards.

    Args:
      blocks: callables (``tf.Module``) that keep the shape of their input.
      gamma: friction of the velocity, in (0, 1).
      repeats: how many times the whole list of blocks is passed through.
    """

    def __init__(self, blocks, gamma=0.9, repeats=1, name=None):
        super().__init__(name=name)
        self.blocks = list(blocks)
        self.gamma = gamma
        self.repeats = repeats

    def _schedule(self):
        return self.blocks * self.repeats

    def run(self, x, v):
        gamma = self.gamma

        @tf.custom_gradient
        def stack(x, v):
            for block in self._schedule():
                v = gamma * v + (1.0 - gamma) * block(x)
                x = x + v
            x_end, v_end = tf.stop_gradient(x), tf.stop_gradient(v)

            def grad(dx, dv, variables=None):
                x, v = x_end, v_end
                collected = {}
                for block in reversed(self._schedule()):
                    params = list(block.trainable_variables)
                    x = x - v
                    with tf.GradientTape() as tape:
                        tape.watch(x)
                        f = block(x)
                    v = (v - (1.0 - gamma) * f) / gamma
                    dv = dv + dx
                    df, *dparams = tape.gradient(
                        f, [x] + params, output_gradients=(1.0 - gamma) * dv
                    )
                    collected.update(zip((p.ref() for p in params), dparams))
                    dx = dx + df
                    dv = gamma * dv
                if variables is None:
                    return dx, dv
                return (dx, dv), [collected.get(p.ref()) for p in variables]

            return (x, v), grad

        return stack(x, v)

    def __call__(self, x):
        x, _ = self.run(x, tf.zeros_like(x))
        return x


class HashGridEncoding(tf.Module):
    """Multi-resolution features of points, kept in hashed tables.

    Attributes:
      tables: variable `[levels, table_size, features]`.
    """

    def __init__(
        self,
        dims=3,
        *,
        levels=4,
        table_size=2**12,
        features=2,
        base_resolution=4,
        growth=1.6,
        seed=0,
        dtype=tf.float32,
        name=None,
    ):
        super().__init__(name=name)
        rng = np.random.RandomState(seed)
        self.dims = dims
        self.table_size = table_size
        self.resolutions = [int(base_resolution * growth**i) for i in range(levels)]
        self.tables = tf.Variable(
            rng.uniform(-1e-1, 1e-1, size=(levels, table_size, features)), dtype=dtype
        )

    def _slots(self, cell, corner):
        slot = (cell[:, 0] + corner[0]) * _PRIMES[0]
        for axis in range(1, self.dims):
            slot = tf.bitwise.bitwise_xor(slot, (cell[:, axis] + corner[axis]) * _PRIMES[axis])
        return tf.math.floormod(slot, self.table_size)

    def _locate(self, x, resolution):
        scaled = x * resolution
        cell = tf.floor(scaled)
        return tf.cast(cell, tf.int64), scaled - cell

    @staticmethod
    def _side(frac, corner):
        return tf.where(np.array(corner, bool), frac, 1.0 - frac)

    def encode(self, x):
        """Interpolates the tables at points.

        Args:
          x: `[n, dims]` points of the unit cube.

        Returns:
          `[n, levels * features]` features, the coarsest level first.
        """
        corners = list(itertools.product((0, 1), repeat=self.dims))

        @tf.custom_gradient
        def interpolate(x):
            tables = tf.convert_to_tensor(self.tables)
            outs = []
            for level, resolution in enumerate(self.resolutions):
                cell, frac = self._locate(x, resolution)
                total = 0.0
                for corner in corners:
                    weight = tf.reduce_prod(self._side(frac, corner), axis=-1, keepdims=True)
                    total += weight * tf.gather(tables[level], self._slots(cell, corner))
                outs.append(total)

            def grad(dout, variables=None):
                douts = tf.split(dout, len(self.resolutions), axis=-1)
                dx = tf.zeros_like(x)
                dtables = []
                for level, resolution in enumerate(self.resolutions):
                    cell, frac = self._locate(x, resolution)
                    g = douts[level]
                    dtable = tf.zeros_like(tables[level])
                    dfrac = tf.zeros_like(x)
                    for corner in corners:
                        slots = self._slots(cell, corner)
                        side = self._side(frac, corner)
                        weight = tf.reduce_prod(side, axis=-1, keepdims=True)
                        dtable += tf.math.unsorted_segment_sum(weight * g, slots, self.table_size)
                        dot = tf.reduce_sum(g * tf.gather(tables[level], slots), axis=-1)
                        parts = []
                        for axis in range(self.dims):
                            others = [side[:, a] for a in range(self.dims) if a != axis]
                            rest = dot if corner[axis] else -dot
                            for other in others:
                                rest = rest * other
                            parts.append(rest)
                        dfrac += tf.stack(parts, axis=-1)
                    dx += resolution * dfrac
                    dtables.append(dtable)
                if variables is None:
                    return dx
                return dx, [tf.stack(dtables) if p is self.tables else None for p in variables]

            return tf.concat(outs, axis=-1), grad

        return interpolate(x)

    def __call__(self, x):
        return self.encode(x)


def _fold(t, like):
    axes, _ = tf.raw_ops.BroadcastGradientArgs(s0=tf.shape(like), s1=tf.shape(t))
    return tf.reshape(tf.reduce_sum(t, axis=axes), tf.shape(like))


def pcen(energy, alpha, delta, root, smooth=0.025, eps=1e-6):
    energy = tf.convert_to_tensor(energy)
    alpha, delta, root = (tf.convert_to_tensor(p, energy.dtype) for p in (alpha, delta, root))
    # [..., time, channels] -> [time, ..., channels]
    rank = energy.shape.rank
    perm = [rank - 2] + list(range(rank - 2)) + [rank - 1]
    back = list(range(1, rank - 1)) + [0, rank - 1]

    @tf.custom_gradient
    def forward(e, alpha, delta, root):
        level = tf.scan(lambda m, e_t: (1.0 - smooth) * m + smooth * e_t, e[1:], initializer=e[0])
        level = tf.concat([e[:1], level], axis=0)
        gain = tf.pow(eps + level, -alpha)
        u = e * gain + delta
        out = tf.pow(u, root) - tf.pow(delta, root)

        def grad(dout):
            du = dout * root * tf.pow(u, root - 1.0)
            dgain = du * e
            dlevel = -alpha * dgain * gain / (eps + level)
            carried = tf.scan(
                lambda acc, d_t: (1.0 - smooth) * acc + d_t,
                dlevel,
                initializer=tf.zeros_like(dlevel[0]),
                reverse=True,
            )
            de = du * gain + smooth * carried
            dalpha = -dgain * gain * tf.math.log(eps + level)
            ddelta = du - dout * root * tf.pow(delta, root - 1.0)
            droot = dout * (
                tf.pow(u, root) * tf.math.log(u) - tf.pow(delta, root) * tf.math.log(delta)
            )
            return de, _fold(dalpha, alpha), _fold(ddelta, delta), _fold(droot, root)

        return out, grad

    return tf.transpose(forward(tf.transpose(energy, perm), alpha, delta, root), back)


def round_with_offset_ste(inputs, offset=None):
    """Rounds to the integers shifted by `offset`; straight through to `inputs`, none to `offset`."""

    @tf.custom_gradient
    def rounded(x):
        return tf.round(x), lambda dy: dy

    @tf.custom_gradient
    def rounded_about(x, shift):
        def grad(dy):
            return _fold(dy, x), tf.zeros_like(shift)

        return tf.round(x - shift) + shift, grad

    inputs = tf.convert_to_tensor(inputs)
    if offset is None:
        return rounded(inputs)
    return rounded_about(inputs, tf.convert_to_tensor(offset, inputs.dtype))
