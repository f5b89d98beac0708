"""The narrowest floats on the way, and formats that are judged as if they were of it."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import pytest

from gradcheck_cli.inputs.floats import format_of
from gradcheck_cli.measure.casts import as_if_in, narrowest
from gradcheck_cli.reals.program import build

SINGLE = format_of("float32")


@pytest.mark.parametrize("name", ["bfloat16", "float16"])
def test_a_cast_inside_is_seen(name: str) -> None:
    program = build(jax.make_jaxpr(lambda x: x.astype(name).astype("float32") * 2)(jnp.float32(1)))
    narrow = narrowest(program, SINGLE)
    assert narrow is not None
    assert narrow.name == name


def test_without_a_cast_nothing_is_narrower() -> None:
    assert narrowest(build(jax.make_jaxpr(jnp.sin)(jnp.float32(1))), SINGLE) is None


def test_a_format_judged_as_a_narrower_one_has_the_worse_of_both() -> None:
    half = as_if_in(SINGLE, format_of("float16"))
    assert (half.name, half.digits, half.max) == ("float32", 11, 65504.0)
    brain = as_if_in(SINGLE, format_of("bfloat16"))
    assert (brain.digits, brain.tiny) == (8, SINGLE.tiny)
