# A gongfu session: many short infusions of the same leaves, and what the tasters say of the cups.
# Only keras.ops; the fit runs on whatever backend is installed at the tea house.

from dataclasses import dataclass
import math

from keras import ops


@dataclass(frozen=True)
class Leaf:
    grams: float = 6.0
    soluble: float = 0.38          # part of the leaf that can be extracted
    rate: float = 0.012            # per second, at the reference temperature
    warmth: float = 0.045          # relative change of the rate per kelvin


def _cotangent(args, upstream):
    return upstream if upstream is not None else args[0]


def make_session(volume: float, reference: float = 95.0):
    """Strength of the infusions of a session, in grams per millilitre.

        k[i] = rate * exp(warmth * (water[i] - reference))
        cup[i] = leaf[i] * (1 - exp(-k[i] * seconds[i])) / volume
        leaf[i + 1] = leaf[i] * exp(-k[i] * seconds[i])

    soluble (pots,): grams in the leaves at first.  seconds and water (pots, infusions): how long, and how hot in Celsius.  rate
    and warmth: each one number for all pots, or (pots,).  An infusion of no seconds gives plain water.  Result (pots, infusions).
    """

    @ops.custom_gradient
    def infuse(soluble, seconds, water, rate, warmth):
        lift = water - reference
        k = ops.expand_dims(rate, -1) * ops.exp(ops.expand_dims(warmth, -1) * lift)
        x = k * seconds
        rounds = seconds.shape[1]
        leaf, leaves, cups = soluble, [], []
        for i in range(rounds):
            leaves.append(leaf)
            cups.append(-leaf * ops.expm1(-x[:, i]) / volume)
            leaf = leaf * ops.exp(-x[:, i])

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream) / volume
            lam = ops.zeros_like(soluble)
            d_x = []
            for i in range(rounds - 1, -1, -1):
                stay = ops.exp(-x[:, i])
                d_x.append(leaves[i] * stay * (g[:, i] - lam))
                lam = lam * stay + g[:, i] * (1.0 - stay)
            d_x = ops.stack(d_x[::-1], axis=1)
            d_log_k = d_x * x
            d_rate = d_x * seconds * ops.exp(ops.expand_dims(warmth, -1) * lift)
            along = 1 if len(rate.shape) else (0, 1)
            d_rate = ops.sum(d_rate, axis=along)
            along = 1 if len(warmth.shape) else (0, 1)
            d_warmth = ops.sum(d_log_k * lift, axis=along)
            d_water = d_log_k * ops.expand_dims(warmth, -1)
            return lam, d_x * k, d_water, d_rate, d_warmth

        return ops.stack(cups, axis=1), grad

    return infuse


def make_table_verdict(power: float = 1.0):
    """One mark for each tea from the marks of the tasters, as a weighted power mean.

    power 1 is the plain weighted mean, a lower power lets the severe tasters speak louder, 0 is the geometric mean.

    marks: (teas, tasters), positive.  trust: (tasters,) for all teas or (teas, tasters), not negative, need not sum to one.
    Returns (teas,).
    """

    @ops.custom_gradient
    def verdict(marks, trust):
        share = trust / ops.sum(trust, axis=-1, keepdims=True)
        if power == 0.0:
            mean = ops.exp(ops.sum(share * ops.log(marks), axis=-1))
        else:
            mean = ops.power(ops.sum(share * ops.power(marks, power), axis=-1), 1.0 / power)

        def grad(*args, upstream=None):
            g = _cotangent(args, upstream)[:, None]
            m = mean[:, None]
            d_marks = g * share * ops.power(marks / m, power - 1.0)
            if power == 0.0:
                pull = m * ops.log(marks / m)
            else:
                pull = m * (ops.power(marks / m, power) - 1.0)
            d_trust = g * pull / ops.sum(trust, axis=-1, keepdims=True)
            if len(trust.shape) == 1:
                d_trust = ops.sum(d_trust, axis=0)
            return d_marks, d_trust

        return mean, grad

    return verdict


def suggested_seconds(leaf, water, strength, volume, reference=95.0):
    """Seconds of the first infusion for a wished strength."""
    part = strength * volume / (leaf.grams * leaf.soluble)
    return -math.log1p(-part) / (leaf.rate * math.exp(leaf.warmth * (water - reference)))


def demo():
    leaf = Leaf()
    pour = make_session(volume=110.0)
    seconds = ops.convert_to_tensor([[8.0, 6.0, 10.0, 18.0, 40.0], [15.0, 0.0, 15.0, 20.0, 30.0]])
    water = ops.ones((2, 5)) * 93.0
    print(pour(ops.ones((2,)) * leaf.grams * leaf.soluble, seconds, water, ops.convert_to_tensor(leaf.rate),
               ops.convert_to_tensor(leaf.warmth)))
    print(make_table_verdict(0.5)(ops.convert_to_tensor([[7.0, 8.5, 6.0]]), ops.convert_to_tensor([1.0, 2.0, 1.0])))


if __name__ == "__main__":
    demo()
