"""A few elements of a program's results are those of the whole, for less."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gradcheck_cli.reals.balls.balls import Balls, exact
from gradcheck_cli.reals.cost import by_flint
from gradcheck_cli.reals.enclose import working
from gradcheck_cli.reals.program import build
from gradcheck_cli.reals.restrict import restrict
from gradcheck_cli.reals.walk import walk
from tests.reals.cases import CASES, traced


@pytest.mark.parametrize("name", CASES)
def test_elements_are_those_of_the_whole(name: str) -> None:
    program, x = traced(name)
    rng = np.random.default_rng(0)
    wanted = []
    for aval in program.out_avals:
        size = int(np.prod(aval.shape, dtype=int))
        wanted.append(rng.permutation(size)[: max(1, size // 3)])
    few = restrict(program, wanted)
    with working(128):
        args = [exact(x[None])]
        whole = walk(program, Balls(1), args)
        part = walk(few, Balls(1), args)
    for full, some, numbers in zip(whole, part, wanted, strict=True):
        chosen = np.broadcast_to(full, (1, *full.shape[1:])).reshape(-1)[numbers]
        for a, b in zip(chosen, some.reshape(-1), strict=True):
            assert (a.is_nan() and b.is_nan()) or a.overlaps(b)


def norm(x: Any) -> Any:
    centred = x - x.mean(-1, keepdims=True)
    return centred / jnp.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)


@pytest.mark.parametrize(
    "function", [norm, jax.nn.log_softmax, lambda x: jnp.tanh(x @ x.T), lambda x: jnp.sin(x)[::2]]
)
def test_a_component_costs_its_lines_not_the_array(function: Any) -> None:
    def both(x: Any, ct: Any) -> Any:
        value, pullback = jax.vjp(function, x)
        return value, pullback(ct)[0]

    x = jax.ShapeDtypeStruct((64, 64), jnp.float32)
    program = build(jax.make_jaxpr(both)(x, jax.eval_shape(function, x)))
    few = restrict(program, [np.array([70]), np.array([70])])
    assert by_flint(few) * 20 < by_flint(program)
