"""Keys and unpackings in the body of a function."""

from __future__ import annotations

import functools
import math
from typing import Any

import jax
import numpy as np

from gradcheck_cli.clues.subscripts import (
    attributes_of_no_class,
    attributes_read,
    keys_read,
    unpacked,
)


def function(params, pair, x):
    a, b = pair
    first, *rest = x
    return params["w"] * a + params["b"] + params["w"] + x[0] + b + params[a] + first + rest[0]


def test_constant_keys_are_read_once_each_in_their_order() -> None:
    assert keys_read(function) == {"params": ["w", "b"]}


def field(wave, at):
    return wave.height * np.cos(wave.number * at)


def pressure(wave, depth):
    return field(wave, depth) * wave.density


def test_attributes_are_read_in_helpers_too() -> None:
    assert attributes_read([pressure])["wave"] == {"height", "number", "density"}


class Surface:
    @staticmethod
    def _parts(wave, at):
        return wave.height * at

    @classmethod
    def made(cls, wave):
        return wave.number

    def above(self, wave):
        return wave.crest

    @staticmethod
    def forward(ctx, wave, at):
        return Surface._parts(wave, at) + Surface.made(wave) + Surface.above(ctx, wave)


def test_attributes_are_read_in_methods_of_a_class_that_is_named() -> None:
    assert attributes_read([Surface.forward])["wave"] == {"height", "number", "crest"}


def scene(params, point):
    return point - params["centre"], params["radius"]


def made(distance):
    def along(params, point):
        return distance(params, point)

    def march(params, point):
        return along(params, point)

    def trace(params, point):
        return march(params, point)

    return trace


def test_keys_are_read_through_helpers_of_helpers_and_what_they_close_over() -> None:
    assert keys_read(made(scene)) == {"params": ["radius", "centre"]}


def test_an_unpacked_argument_has_as_many_elements() -> None:
    assert {n: len(p) for n, p in unpacked([function]).items()} == {"pair": 2, "x": 2}


def rule(saved, g):
    weights = saved.weight * g.T
    return weights + saved.bias


def test_attributes_are_read_of_names() -> None:
    assert attributes_read([function, rule]) == {
        "saved": frozenset({"weight", "bias"}),
        "g": frozenset({"T"}),
    }


def test_a_function_without_a_source_has_neither() -> None:
    assert (keys_read(np.tanh), unpacked([np.tanh])) == ({}, {})


def terms(settings, x):
    box, cutoff = settings
    return x % box if cutoff else x


def energy(settings, x):
    return terms(settings, x)


def test_what_a_helper_unpacks_is_unpacked() -> None:
    assert unpacked([energy]) == {"settings": ["box", "cutoff"]}


def each_by_itself(light, params):
    top, slope = (np.asarray(p)[..., None] for p in params)
    return top + slope * light


def test_what_is_unpacked_part_by_part() -> None:
    assert unpacked([each_by_itself]) == {"params": ["top", "slope"]}
    assert unpacked([lambda: None]) == {}


def test_what_a_helper_of_the_factory_around_unpacks() -> None:
    def parts(both):
        one, other = map(np.exp, both)
        return one + other

    def made(pair):
        return parts(pair)

    assert unpacked([made]) == {"pair": ["one", "other"]}


def test_what_a_scan_goes_along_has_the_keys_of_its_rows() -> None:
    def stack(x: Any, params: Any) -> Any:
        def layer(carry: Any, row: Any) -> Any:
            return carry @ row["w"] + row["b"], None

        return jax.lax.scan(layer, x, params)[0]

    assert sorted(keys_read(stack)["params"]) == ["b", "w"]


@functools.wraps(math.exp)
def grown(rate):
    return np.exp(rate)


def swollen(rate):
    return grown(rate)


def test_a_helper_that_wraps_a_builtin_is_read_by_its_own_names() -> None:
    assert attributes_read([swollen]).get("rate", frozenset()) == frozenset()


def test_attributes_of_what_is_of_no_known_class() -> None:
    np: Any = None

    def forward(ctx, x, cfg, maker, layout, pair, mode, width, symbol):
        ctx.cfg = cfg
        symbol = np.sin(symbol).value + symbol.value
        if mode.reduction == "sum" and x.is_cpu and width.dtype.width:
            return maker.size_of * width.scale
        return maker.build(x) * cfg.scale + layout.T.sum() + x.shape[0] + pair.low + 2 * width

    def backward(ctx, g):
        return g * ctx.cfg.scale * ctx.cfg.gain

    names = ["x", "cfg", "maker", "layout", "pair", "mode", "width", "symbol"]
    found = attributes_of_no_class([forward, backward], names, {"pair": object})
    assert found == {"cfg": {"scale", "gain"}}
