"""Functions that call a custom gradient of their own."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.discover.outer import Outer, outer_functions
from tests.discover import outer_cases


def test_what_is_called_inside_is_the_outer_functions() -> None:
    found = outer_functions(outer_cases, ["scaled", "factory", "gone"])
    assert list(found) == ["scaled"]
    (scaled,) = found["scaled"]
    assert scaled.through == {"x"}
    assert scaled.place.definition == "scaled.<locals>.op"
    assert scaled.place.qualname == "scaled"


def test_the_cases_are_what_they_say() -> None:
    assert float(outer_cases.scaled(jnp.ones(2), 3.0).sum()) == 6.0
    assert float(jax.grad(outer_cases.factory())(1.0)) == 1.0


def of(scope: str) -> Outer:
    (outer,) = outer_functions(outer_cases, [scope])[scope]
    return outer


def test_a_method_that_calls_what_it_makes_is_one() -> None:
    layer = of("Layer.call")
    assert (layer.place.qualname, layer.name) == ("Layer.call", "call")
    assert layer.place.definition == "Layer.call.<locals>.op"
    assert float(layer.function(jnp.ones(()))) == 2.0
    assert layer.origin is not None
    assert layer.origin.settings["factor"].value == 2.0
    assert float(layer.origin.function({"factor": 3.0})(jnp.ones(()))) == 3.0


@pytest.mark.parametrize("scope", ["Law.log_prob", "Tilted.log_prob"])
def test_attributes_that_are_handed_on_are_known(scope: str) -> None:
    law = of(scope)
    assert law.attributes == {"rate", "low"}
    assert law.origin is not None
    assert set(law.origin.settings) == {"rate", "low"}


def test_a_method_that_hands_it_out_is_none() -> None:
    assert outer_functions(outer_cases, ["Layer.make"]) == {}


def test_what_a_factory_gives_back_is_one_as_its_own_file_calls_it() -> None:
    times = of("times.shifted")
    assert times.place.qualname == "times.<locals>.shifted"
    assert times.through == {"x"}
    assert times.origin is not None
    assert {n: s.value for n, s in times.origin.settings.items()} == {"factor": 3.0, "offset": 1.0}
    assert not times.origin.settings["factor"].guessed
    changed = times.origin.function({"offset": 0.0})
    assert float(changed(jnp.ones(2), 0)) == 3.0


def test_what_the_module_holds_of_a_factory_stands_for_it() -> None:
    squared = of("squared_by.squared")
    assert (squared.place.qualname, squared.origin) == ("squared", None)
    assert squared.place.definition == "squared_by.<locals>.squared.<locals>.op"


def test_any_number_of_arguments_reaches_it() -> None:
    assert of("joined").through == {"parts"}
