"""Sizing hourglasses.

Sand leaves a bulb at a steady rate whatever its depth (Beverloo), so a glass is
set by three things: how much sand, how wide the neck, how coarse the grains.
Lengths in millimetres, masses in grams, times in seconds, densities in g/mm3.
"""

import dataclasses
import math

from keras import ops

GRAVITY = 9810.0  # mm/s2


@dataclasses.dataclass(frozen=True)
class Sand:
    """A tin of sieve fractions."""

    diameters: tuple = (0.15, 0.25, 0.40)
    density: float = 1.6e-3
    empty_annulus: float = 1.4   # grain diameters lost at the rim
    discharge: float = 0.58


def _shrink(value, like):
    """Add up `value` along the axes in which `like` was stretched."""
    shape = tuple(like.shape)
    lead = len(value.shape) - len(shape)
    if lead > 0:
        value = ops.sum(value, axis=tuple(range(lead)))
    axes = tuple(i for i, n in enumerate(shape) if n == 1 and value.shape[i] != 1)
    return ops.sum(value, axis=axes, keepdims=True) if axes else value


def make_neck_flow(opening="round", sand=Sand()):
    """Flow through the neck in g/s.

    opening : "round" (a hole of diameter `neck`) or "slot" (a long slit of width
        `neck`; the flow is then for each millimetre of its length).

    The function returned takes neck, grain diameter and bulk density, of shapes
    that broadcast. A neck narrower than the empty annulus is choked: no flow.
    """
    power = {"round": 2.5, "slot": 1.5}[opening]
    factor = sand.discharge * math.sqrt(GRAVITY)
    rim = sand.empty_annulus

    @ops.custom_gradient
    def neck_flow(neck, grain, density):
        clear = ops.maximum(neck - rim * grain, 0.0)
        speed = factor * ops.power(clear, power)

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            widen = upstream * density * (power * factor) * ops.power(clear, power - 1.0)
            return (
                _shrink(widen, neck),
                _shrink(-rim * widen, grain),
                _shrink(upstream * speed, density),
            )

        return speed * density, grad

    return neck_flow


def make_run_time(sand=Sand()):
    """How long glasses run when filled from several tins.

    Returned function: fill (glasses,) grams in the upper bulb, neck (glasses,),
    parts (glasses, fractions) the recipe of each glass. Parts are spoons or grams
    or fractions, as the blower wrote them, and are not rescaled beforehand; the
    grain that counts is their weighted mean diameter. Necks must be wide enough
    to run.
    """
    rim = sand.empty_annulus
    factor = sand.discharge * math.sqrt(GRAVITY) * sand.density

    @ops.custom_gradient
    def run_time(fill, neck, parts):
        sizes = ops.cast(ops.convert_to_tensor(sand.diameters, dtype="float64"), parts.dtype)
        grain = ops.sum(parts * sizes, axis=-1) / ops.sum(parts, axis=-1)
        clear = neck - rim * grain
        rate = factor * ops.power(clear, 2.5)
        seconds = fill / rate

        def grad(*args, upstream=None):
            if upstream is None:
                (upstream,) = args
            d_neck = -2.5 * upstream * seconds / clear
            d_grain = -rim * d_neck
            offset = sizes - ops.expand_dims(grain, -1)
            return upstream / rate, d_neck, ops.expand_dims(d_grain, -1) * offset

        return seconds, grad

    return run_time


def even_recipe(glasses, sand=Sand(), dtype="float32"):
    """The house recipe: the same share of every tin."""
    n = len(sand.diameters)
    return ops.full((glasses, n), 1.0 / n, dtype=dtype)


def main():
    timer = make_run_time()
    fill = ops.convert_to_tensor([25.0, 80.0])
    neck = ops.convert_to_tensor([2.0, 2.6])
    print("runs", timer(fill, neck, even_recipe(2)))
    flow = make_neck_flow("slot")
    print("slot", flow(neck, ops.convert_to_tensor(0.25), ops.convert_to_tensor(1.6e-3)))


if __name__ == "__main__":
    main()
