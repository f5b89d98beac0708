"""Arguments to which a rule's own text gives no gradient."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.clues.withheld import withheld
from gradcheck_cli.inputs.signature import Parameter

PARAMETERS = [Parameter(name, i, True, False) for i, name in enumerate(("x", "times", "rate"))]


def zeros_like(x: Any) -> Any:
    return x


def test_none_and_zeros_are_nothing() -> None:
    def backward(ctx: Any, g: Any) -> Any:
        if ctx:
            return g, None, zeros_like(g)
        return 2 * g, None, zeros_like(g)

    assert set(withheld([backward], PARAMETERS)) == {"times", "rate"}


def test_what_one_return_gives_is_not_withheld() -> None:
    def backward(ctx: Any, g: Any) -> Any:
        if ctx:
            return g, None, None
        return g, g, None

    assert set(withheld([backward], PARAMETERS)) == {"rate"}


def test_tuples_of_another_length_say_nothing() -> None:
    def backward(ctx: Any, g: Any) -> Any:
        return g, None

    assert not withheld([backward], PARAMETERS)


def test_what_a_forward_function_keeps_is_no_gradient() -> None:
    def fwd(x: Any, times: Any, rate: Any) -> Any:
        return x, None, None

    def bwd(kept: Any, g: Any) -> Any:
        return g, 0.0 * g, zeros_like(g)

    assert set(withheld([fwd, bwd], PARAMETERS)) == {"rate"}


def test_a_rule_inside_of_the_function_says_it_too() -> None:
    def scaled(x: Any, times: Any, rate: Any) -> Any:
        def grad(g: Any) -> Any:
            return g, None, g

        return x, grad

    assert set(withheld([scaled], PARAMETERS)) == {"times"}
