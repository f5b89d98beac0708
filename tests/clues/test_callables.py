"""Functions of the module for parameters that are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from gradcheck_cli.clues.callables import callables, spread
from gradcheck_cli.clues.reading import read
from gradcheck_cli.inputs.signature import OMITTED, Parameter


def growth(t: Any, y: Any, params: Any) -> Any:
    return params["rate"] * y - params["death"] * t


def gap(x: Any, mean: Any, width: Any) -> Any:
    return (x - mean) / width


def unlike(a: Any, b: Any) -> Any:
    return a + b


def step(f: Any, t: Any, y: Any, dt: Any, params: Any) -> Any:
    return y + dt * f(t + 0.5 * dt, y, params)


def root(func: Any, lo: Any, args: Any) -> Any:
    return func(lo, *args)


def usage(p: Any) -> Any:
    return root(gap, p, (p, p))


def fixed_point(f: Any, params: Any, x0: Any) -> Any:
    return f(params, x0)


def parameters(function: Callable[..., Any]) -> list[Parameter]:
    names = inspect.signature(function).parameters
    return [Parameter(n, i, i > 0, False, OMITTED) for i, n in enumerate(names)]


def test_a_function_that_takes_the_same_names_is_meant() -> None:
    chosen = callables(step, parameters(step))["f"]
    assert chosen.value is growth
    assert not chosen.invented


def test_a_function_that_a_call_passes_is_meant() -> None:
    found = callables(root, parameters(root))
    assert found["func"].value is gap
    assert "root(gap, …)" in found["func"].source
    assert spread(root, found) == {"args": 2}


def test_no_function_is_meant_where_names_differ() -> None:
    assert callables(fixed_point, parameters(fixed_point)) == {}


def test_the_text_of_a_function_that_is_meant_is_read_too() -> None:
    hints = read(step, parameters(step), [])
    assert {"params['rate']", "params['death']"} <= hints.clues.keys()
