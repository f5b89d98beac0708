import dataclasses
import math

import keras
from keras import ops

PI2 = math.pi ** 2


def _fold(value, like):
    lead = len(value.shape) - len(like.shape)
    if lead:
        value = ops.sum(value, axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(like.shape) if n == 1 and value.shape[i] != 1)
    return ops.sum(value, axis=axes, keepdims=True) if axes else value


@ops.custom_gradient
def column_stress(yield_stress, modulus, slenderness):
    # critical stress of a pinned strut: Johnson's parabola for stocky ones, Euler's hyperbola beyond; arguments broadcast
    stocky = yield_stress * slenderness ** 2 <= 2.0 * PI2 * modulus
    ratio = yield_stress * slenderness ** 2 / (4.0 * PI2 * modulus)
    slim = ops.where(stocky, ops.ones_like(ratio), slenderness)
    euler = PI2 * modulus / slim ** 2
    stress = ops.where(stocky, yield_stress * (1.0 - ratio), euler)

    def grad(*args, upstream=None):
        dy = upstream if upstream is not None else args[0]
        zero = ops.zeros_like(dy)
        d_yield = ops.where(stocky, dy * (1.0 - 2.0 * ratio), zero)
        d_modulus = dy * ops.where(stocky, ratio * yield_stress / modulus, PI2 / slim ** 2)
        d_slender = dy * ops.where(
            stocky,
            -yield_stress * (yield_stress / modulus) * slenderness / (2.0 * PI2),
            -2.0 * euler / slim,
        )
        return _fold(d_yield, yield_stress), _fold(d_modulus, modulus), _fold(d_slender, slenderness)

    return stress, grad


@dataclasses.dataclass
class Trial:
    nutrients: tuple = ("N", "P", "K")
    measured: object = None     # bool (plots, nutrients), None: all of them

    def response(self):
        measured = self.measured

        @ops.custom_gradient
        def mitscherlich(applied, soil, efficiency, ceiling):
            supply = applied + soil
            short = ops.exp(-efficiency * supply)
            met = 1.0 - short
            if measured is not None:
                seen = ops.cast(ops.convert_to_tensor(measured), met.dtype)
                met = seen * met + (1.0 - seen)
            product = met[:, 0]
            for k in range(1, met.shape[-1]):
                product = product * met[:, k]

            def grad(*args, upstream=None):
                upstream = upstream if upstream is not None else args[0]
                d_met = (upstream * ceiling * product)[:, None] / met
                d_exponent = d_met * short
                d_efficiency = ops.sum(d_exponent * supply, axis=0)
                if measured is not None:
                    d_exponent = d_exponent * seen
                d_supply = d_exponent * efficiency
                return d_supply, d_supply, d_efficiency, upstream * product

            return ceiling * product, grad

        return mitscherlich


class YieldModel(keras.layers.Layer):
    def __init__(self, trial, **kwargs):
        super().__init__(**kwargs)
        self.rule = trial.response()

    def build(self, shape):
        self.log_eff = self.add_weight(name="log_eff", shape=(shape[-1],), initializer="zeros")

    def call(self, applied, soil, ceiling):
        return self.rule(applied, soil, ops.exp(self.log_eff), ceiling)
