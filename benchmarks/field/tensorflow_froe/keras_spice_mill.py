"""Formulating curry powders: pungency and aroma of a blend.

A blend is a row of amounts, one per ingredient.  Both scores feed a small optimiser which reformulates
house blends when the price of an ingredient jumps.
"""

from dataclasses import dataclass

import keras
from keras import ops


@dataclass(frozen=True)
class Panel:
    """What the tasting panel gave us."""

    detection: float = 0.05  # g/kg that nobody notices yet
    sharpness: float = 2.0  # 1: sensations add up; large: the strongest one wins


def make_burn_score(panel=Panel()):
    """Pungency of a blend.

    ``burn_score(amounts, content, gain, exponent)``

    amounts   (blends, ingredients)
    content   (ingredients, compounds)  capsaicin, piperine, gingerol, ... g/kg
    gain      (compounds,)  positive
    exponent  (compounds,)  Stevens exponents, positive

    Every compound causes gain * ((c + d)**n - d**n) of sensation, which is zero when there is none of
    it; sensations combine as a Minkowski sum of order ``panel.sharpness``.  A blend without any
    pungent compound scores zero; for a sharpness above 1 its gradient is taken to be zero too, as
    the score has a corner there.
    """
    d, order = panel.detection, panel.sharpness

    @ops.custom_gradient
    def burn_score(amounts, content, gain, exponent):
        level = ops.einsum("bi,ic->bc", amounts, content) + d
        floor = ops.power(ops.full_like(exponent, d), exponent)
        curve = ops.power(level, exponent)
        excess = floor * ops.expm1(exponent * ops.log(level / d))  # (c + d)**n - d**n without the cancellation
        felt = gain * excess
        if order == 1:
            score = ops.sum(felt, axis=-1)
        else:
            powered = ops.sum(ops.power(felt, order), axis=-1)
            some = powered > 0
            root = ops.power(ops.where(some, powered, ops.ones_like(powered)), 1.0 / order)
            score = ops.where(some, root, ops.zeros_like(root))

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            if order == 1:
                to_felt = upstream[:, None] * ops.ones_like(felt)
            else:
                relative = felt / ops.where(some, score, ops.ones_like(score))[:, None]
                to_felt = upstream[:, None] * ops.power(relative, order - 1.0)
            to_level = to_felt * gain * exponent * curve / level
            log_d = ops.log(ops.full_like(exponent, d))
            d_exponent = ops.sum(to_felt * gain * (curve * ops.log(level) - floor * log_d), axis=0)
            return (
                ops.einsum("bc,ic->bi", to_level, content),
                ops.einsum("bi,bc->ic", amounts, to_level),
                ops.sum(to_felt * excess, axis=0),
                d_exponent,
            )

        return score, grad

    return burn_score


@ops.custom_gradient
def headspace_aroma(share, volatility, lift):
    """Aroma above a blend of essential oils.

    share (blends, oils), volatility (oils,), lift (oils, oils): lift[i, j] says how strongly oil j
    drives oil i into the air (positive) or holds it back (negative). Oil i contributes
    share_i * volatility_i * exp(sum_j lift[i, j] share_j); the result is (blends,).
    """
    activity = ops.exp(ops.einsum("bj,ij->bi", share, lift))
    vapour = share * volatility * activity
    total = ops.sum(vapour, axis=-1)

    def grad(*args, upstream=None):
        if upstream is None:
            (upstream,) = args
        g = upstream[:, None]
        d_share = g * (volatility * activity + ops.einsum("bj,ij->bi", vapour, lift))
        d_volatility = ops.sum(g * share * activity, axis=0)
        d_lift = ops.einsum("bi,bj->ij", g * vapour, share)
        return d_share, d_volatility, d_lift

    return total, grad


class BlendScores(keras.layers.Layer):
    """Softmax shares in, (burn, aroma) out."""

    def __init__(self, content, panel=Panel(), **kwargs):
        super().__init__(**kwargs)
        self.content = content
        self.burn = make_burn_score(panel)

    def build(self, input_shape):
        oils, compounds = len(self.content), len(self.content[0])
        self.gain = self.add_weight(shape=(compounds,), initializer="ones", name="gain")
        self.exponent = self.add_weight(shape=(compounds,), initializer="ones", name="exponent")
        self.volatility = self.add_weight(shape=(oils,), initializer="ones", name="volatility")
        self.lift = self.add_weight(shape=(oils, oils), initializer="zeros", name="lift")

    def call(self, logits):
        share = ops.softmax(logits, axis=-1)
        content = ops.cast(ops.convert_to_tensor(self.content), share.dtype)
        # TensorFlow wants plain tensors, not variables, as arguments of a custom gradient
        gain, exponent, volatility, lift = (
            ops.multiply(v, 1) for v in (self.gain, self.exponent, self.volatility, self.lift)
        )
        burn = self.burn(share, content, gain, exponent)
        return ops.stack([burn, headspace_aroma(share, volatility, lift)], axis=-1)
