"""Image captioning and caption retrieval pieces for Keras 3, any backend.

Regions come from a detector: features plus the share of the picture that their box covers; an area of zero marks
padding. Captions are written in one of several house styles (newspaper, museum, alt text, ...).
"""
import math

import keras
from keras import ops


def _take(args, upstream):
    # jax and tensorflow hand the cotangent positionally, torch by keyword
    return args[0] if upstream is None else upstream


@ops.custom_gradient
def attend_regions(query, key, value, gamma, areas):
    """Attention of words over regions with a learned preference for large or small boxes.

    Shapes:
        query: (batch, heads, words, dim)
        key, value: (batch, heads, regions, dim)
        gamma: (heads,), exponent of the box area
        areas: (batch, regions); zero = padding. A picture without regions attends to nothing and gives zeros.
    """
    root = 1.0 / math.sqrt(query.shape[-1])
    real = areas > 0
    valid = ops.cast(real, query.dtype)[:, None, None, :]
    safe = ops.where(real, areas, ops.ones_like(areas))
    log_area = ops.log(safe)[:, None, None, :]
    bias = gamma[None, :, None, None]
    logits = query @ ops.transpose(key, (0, 1, 3, 2)) * root + bias * log_area
    logits = logits * valid - 1e9 * (1 - valid)
    e = ops.exp(logits - ops.max(logits, axis=-1, keepdims=True)) * valid
    total = ops.sum(e, axis=-1, keepdims=True)
    p = e / ops.where(total > 0, total, ops.ones_like(total))

    def grad(*args, upstream=None):
        g = _take(args, upstream)
        d_value = ops.transpose(p, (0, 1, 3, 2)) @ g
        d_p = g @ ops.transpose(value, (0, 1, 3, 2))
        d_logits = p * (d_p - ops.sum(p * d_p, axis=-1, keepdims=True))
        d_query = d_logits @ key * root
        d_key = ops.transpose(d_logits, (0, 1, 3, 2)) @ query * root
        d_gamma = ops.sum(d_logits * log_area, axis=(0, 2, 3))
        d_areas = ops.sum(d_logits * bias, axis=(1, 2)) / safe
        return d_query, d_key, d_value, d_gamma, d_areas

    return p @ value, grad


def make_caption_margin(margin=0.2, reduction="sum"):
    """Two-way hinge of caption retrieval.

    Row i of the similarities belongs to picture i, column j to caption j, and (i, i) are the true pairs. Every
    picture ranks the captions and every caption ranks the pictures.

    Args:
        margin: wanted lead of the true pair.
        reduction: "sum" over all wrong partners, or "max" (hardest wrong partner only).
    """

    @ops.custom_gradient
    def caption_margin(similarity):
        n = similarity.shape[0]
        eye = ops.eye(n, dtype=similarity.dtype)
        true = ops.sum(similarity * eye, axis=1)
        by_picture = ops.relu(margin + similarity - true[:, None]) * (1 - eye)
        by_caption = ops.relu(margin + similarity - true[None, :]) * (1 - eye)
        if reduction == "max":
            hit_p = ops.one_hot(ops.argmax(by_picture, axis=1), n, axis=1, dtype=similarity.dtype)
            hit_c = ops.one_hot(ops.argmax(by_caption, axis=0), n, axis=0, dtype=similarity.dtype)
        else:
            hit_p = hit_c = ops.ones_like(similarity)
        loss = (ops.sum(by_picture * hit_p) + ops.sum(by_caption * hit_c)) / n

        def grad(*args, upstream=None):
            g = _take(args, upstream) / n
            push = hit_p * ops.cast(by_picture > 0, g.dtype) + hit_c * ops.cast(by_caption > 0, g.dtype)
            pull = ops.sum(push, axis=1)
            return g * (push - eye * pull[:, None])

        return loss, grad

    return caption_margin


def make_style_prefix(styles):
    """styles: the house style of every caption of the batch, a list of ints."""
    ids = [int(s) for s in styles]

    @ops.custom_gradient
    def style_prefix(words, prompts, strength):
        """Adds the style's prompt to the first positions of its captions.

        words (batch, length, dim), prompts (styles, p, dim) with p <= length, strength (styles,)
        """
        index = ops.convert_to_tensor(ids, dtype="int32")
        p, length = prompts.shape[1], words.shape[1]
        chosen = ops.take(prompts, index, axis=0)
        level = ops.take(strength, index, axis=0)[:, None, None]
        added = ops.pad(chosen * level, ((0, 0), (0, length - p), (0, 0)))

        def grad(*args, upstream=None):
            g = _take(args, upstream)
            head = g[:, :p]
            where = ops.expand_dims(index, 1)
            d_prompts = ops.scatter_update(ops.zeros_like(prompts), where, head * level)
            d_strength = ops.scatter_update(
                ops.zeros_like(strength), where, ops.sum(head * chosen, axis=(1, 2)))
            return g, d_prompts, d_strength

        return words + added, grad

    return style_prefix


class RegionReader(keras.layers.Layer):
    def __init__(self, heads, **kwargs):
        super().__init__(**kwargs)
        self.heads = heads

    def build(self, *shapes):
        self.taste = self.add_weight(shape=(self.heads,), initializer="zeros", name="taste")

    def call(self, query, regions, areas):
        return attend_regions(query, regions, regions, ops.tanh(self.taste), areas)
