"""Motion encoder for marionette performances (keras.ops, any backend).

A scene is a run of frames with the positions of the puppet's joints, tracked by two
cameras; scenes of a batch are padded at the end to the longest one. The encoder
first puts every scene into a common frame (position of the stage and size of the
puppet must not matter) and then decides which strings the hands are pulling.
"""
import keras
from keras import ops

EPSILON = 1e-5


def frames_mask(lengths, frames):
    """(batch,) lengths -> (batch, frames) booleans, true for a real frame."""
    return ops.arange(frames)[None, :] < ops.convert_to_tensor(lengths)[:, None]


def standardise_scene(joints, stretch, mask):
    """Centre each scene and divide by its size, taken over the real frames.

    Parameters
    ----------
    joints : tensor, shape (batch, frames, joints, coordinates)
    stretch : tensor, shape (joints,)
        Factor by which each joint counts after the division (learned).
    mask : boolean tensor, shape (batch, frames)
        False for the frames that pad the scene. These come out as zeros.

    Returns
    -------
    tensor, shape (batch, frames, joints, coordinates)

    Notes
    -----
    The centre is the mean position over real frames and joints, the size the root
    mean square distance of the joints from it.
    """
    real = ops.cast(mask, joints.dtype)[:, :, None, None]
    points = ops.maximum(ops.sum(real, axis=1, keepdims=True), 1.0) * joints.shape[2]

    @ops.custom_gradient
    def scene_frame(joints, stretch):
        centre = ops.sum(joints * real, axis=(1, 2), keepdims=True) / points
        away = (joints - centre) * real
        size2 = ops.sum(away * away, axis=(1, 2, 3), keepdims=True) / points
        inverse = 1.0 / ops.sqrt(size2 + EPSILON)
        unit = away * inverse

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_unit = upstream * stretch[:, None] * real
            shrink = ops.mean(ops.sum(d_unit * unit, axis=3, keepdims=True),
                              axis=(1, 2), keepdims=True)
            d_away = inverse * (d_unit - unit * shrink)
            d_joints = d_away - real * ops.mean(d_away, axis=(1, 2), keepdims=True)
            d_stretch = ops.sum(upstream * unit, axis=(0, 1, 3))
            return d_joints, d_stretch

        return unit * stretch[:, None], grad

    return scene_frame(joints, stretch)


def make_string_gate(hands=2.0, softness=0.5, axis=-1, iterations=60):
    """Share of the pull on each string, of which `hands` can be held at once.

    The gate is sigmoid((score - level) / softness), and the level is such that the
    gates along `axis` add up to `hands` (which must be less than the number of
    strings). The level is found by bisection and a last
    step of Newton's method.
    """

    @ops.custom_gradient
    def string_gate(scores):
        reach = 40.0 * softness
        low = ops.min(scores, axis=axis, keepdims=True) - reach
        high = ops.max(scores, axis=axis, keepdims=True) + reach
        for _ in range(iterations):
            level = 0.5 * (low + high)
            held = ops.sum(ops.sigmoid((scores - level) / softness), axis=axis, keepdims=True)
            low = ops.where(held > hands, level, low)
            high = ops.where(held > hands, high, level)
        rough = ops.sigmoid((scores - level) / softness)
        excess = ops.sum(rough, axis=axis, keepdims=True) - hands
        level = level + softness * excess / ops.sum(
            rough * (1.0 - rough), axis=axis, keepdims=True)
        gate = ops.sigmoid((scores - level) / softness)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            slope = gate * (1.0 - gate)
            level_price = ops.sum(slope * upstream, axis=axis, keepdims=True)
            level_price = level_price / ops.sum(slope, axis=axis, keepdims=True)
            return slope * (upstream - level_price) / softness

        return gate, grad

    return string_gate


class StringReader(keras.layers.Layer):
    """Scenes -> which strings are pulled, frame by frame."""

    def __init__(self, strings=9, hands=2.0, **kwargs):
        super().__init__(**kwargs)
        self.strings = strings
        self.gate = make_string_gate(hands)

    def build(self, input_shape):
        joints, coordinates = input_shape[-2:]
        self.stretch = self.add_weight(shape=(joints,), initializer="ones", name="stretch")
        self.kernel = self.add_weight(shape=(joints * coordinates, self.strings), name="kernel")

    def call(self, joints, lengths):
        mask = frames_mask(lengths, joints.shape[1])
        frame = standardise_scene(joints, 1.0 * self.stretch, mask)
        flat = ops.reshape(frame, (-1, frame.shape[1], frame.shape[2] * frame.shape[3]))
        return self.gate(ops.matmul(flat, self.kernel))
