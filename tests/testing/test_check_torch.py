"""`check_gradient` in a unit test of PyTorch."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import pytest

from gradcheck_cli import check_gradient
from gradcheck_cli.testing.claims import adopted

torch = pytest.importorskip("torch")


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, grad: Any) -> Any:
        return 3 * grad


def around(x: Any) -> Any:
    """A test module may import the rule alone, and no framework."""
    return Twice.apply(x)


def naive(x: Any) -> Any:
    return torch.log(1 + torch.exp(x))


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (Twice, "it is 1.5 times the truth"),
        (Twice.apply, "return 3 * grad"),
        (around, "the custom rules that it calls make it wrong"),
        (naive, "write -F.logsigmoid(-x)"),
    ],
)
def test_a_wrong_one_raises_with_the_report(function: Any, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        check_gradient(function)
    assert said in str(caught.value)
    assert "tests/testing/test_check_torch.py" in str(caught.value)


def test_a_function_belongs_to_the_framework_of_the_rule_that_it_calls() -> None:
    alone = FunctionType(around.__code__, {"Twice": Twice})
    gradient, framework = adopted(alone)
    assert (gradient.kind, framework.name) == ("function", "torch")


def test_inputs_of_an_argument_that_is_not_there_are_refused() -> None:
    with pytest.raises(TypeError, match="the inputs speak of `y`; `Twice` takes `x`"):
        check_gradient(Twice, inputs="y=f32[n]")
