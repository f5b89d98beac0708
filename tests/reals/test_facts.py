"""One table says what each primitive is; rules, sets and costs follow from its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flint import arb
from jax.extend.core import Primitive

from gradcheck_cli.reals.balls import scalar
from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.facts import FACTS, Effort, Facts, Law, functions, named
from gradcheck_cli.reals.float64.rules import RULES as RULES64
from gradcheck_cli.reals.inner_jaxprs import CONTROL
from gradcheck_cli.reals.program import Program, build
from gradcheck_cli.reals.restrict import restrict
from gradcheck_cli.reals.rules import RULES
from gradcheck_cli.reals.rules.by_name import derived
from gradcheck_cli.reals.rules.unreal import NATIVE, REASONS
from gradcheck_cli.reals.walk import walk

POINTS = np.array([[1.0, 2.0, 5.0]])


def test_every_rule_has_a_row() -> None:
    assert sorted((RULES.keys() | RULES64.keys()) - FACTS.keys()) == []


def test_every_row_has_a_rule_or_says_why_not() -> None:
    assert sorted(FACTS.keys() - RULES.keys() - REASONS.keys() - NATIVE) == []


def test_every_primitive_that_controls_programs_has_a_row() -> None:
    assert sorted(CONTROL.keys() - FACTS.keys()) == []


def test_every_row_that_names_its_function_has_the_rule_of_its_law() -> None:
    named_rows = named(lambda row: row.function is not None)
    assert sorted(named_rows - derived(FACTS).keys()) == []


def test_what_only_moves_is_no_function_of_numbers() -> None:
    assert not named(lambda row: row.moves and (row.pointwise or row.sums or row.branches))


def made_up(name: str, shape: Callable[[Any], tuple[int, ...]], **params: Any) -> Program:
    """A program of one primitive that JAX does not have."""
    primitive = Primitive(name)
    primitive.def_abstract_eval(lambda x, **_: jax.core.ShapedArray(shape(x), x.dtype))
    aval = jax.ShapeDtypeStruct(POINTS.shape[1:], jnp.float32)
    return build(jax.make_jaxpr(lambda x: primitive.bind(x, **params))(aval))


def test_a_new_function_takes_a_row_and_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Facts(Law.UNARY, effort=Effort.FUNCTION)
    monkeypatch.setitem(FACTS, "cubed", row)
    monkeypatch.setitem(scalar.UNARY, "cubed", lambda x: x * x * x)
    program = made_up("cubed", lambda x: x.shape)
    rules = {**RULES, **derived({"cubed": row})}
    (out,) = walk(program, Balls(1, rules=rules), [exact(POINTS)])
    assert out.tolist() == [[1, 8, 125]]
    assert by_flint(program) == 3 * Effort.FUNCTION
    few = restrict(program, [np.array([2])])  # as a function of each element it needs one
    (out,) = walk(few, Balls(1, rules=rules), [exact(POINTS)])
    assert out.tolist() == [[125]]


def test_a_new_reduction_takes_a_row_and_the_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its running form is one row more."""
    rows = {
        "reduce_hypot": Facts(Law.REDUCTION, function="hypot"),
        "cumhypot": Facts(Law.RUNNING, function="hypot"),
    }
    monkeypatch.setitem(scalar.BINARY, "hypot", lambda a, b: (a * a + b * b).sqrt())
    for name, row in rows.items():
        monkeypatch.setitem(FACTS, name, row)
    domain = Balls(1, rules={**RULES, **derived(rows)})
    whole = made_up("reduce_hypot", lambda x: (), axes=(0,))
    running = made_up("cumhypot", lambda x: x.shape, axis=0, reverse=False)
    (out,) = walk(whole, domain, [exact(POINTS)])
    assert out.shape == (1,)
    assert out[0].overlaps(arb(30).sqrt())
    (out,) = walk(running, domain, [exact(POINTS)])
    assert all(b.overlaps(arb(n).sqrt()) for b, n in zip(out[0], (1, 5, 30), strict=True))


def test_a_function_of_another_name_is_shared() -> None:
    assert functions(Law.BINARY)["add_any"] == "add"
    assert functions(Law.RUNNING)["cumsum"] == functions(Law.REDUCTION)["reduce_sum"] == "add"
