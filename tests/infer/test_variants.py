"""Variants of a signature that fits: the flag the other way, numbers moved, what was left out."""

from __future__ import annotations

from typing import Any

from gradcheck_cli.infer.variants import varied
from gradcheck_cli.inputs.signature import OMITTED, Leaf, Signature
from gradcheck_cli.subject.refusals import RuleError
from tests.infer.fitted import Gradient, fixed, shapes

X = Leaf("x", (3,), "test")


def variants(gradient: Gradient, **others: Any) -> Any:
    names = [p.name for p in gradient.parameters()]
    arguments = tuple((n, X if n == "x" else others.get(n, OMITTED)) for n in names)
    return varied(gradient, gradient.parameters(), [Signature(arguments)], "float32")


def test_a_flag_goes_the_other_way_and_a_number_off_its_default() -> None:
    subjects, broken = variants(Gradient(lambda x, flag=True, power=2, slope=0.5: x))
    assert [fixed(s.signature) for s in subjects] == [{"flag": False}, {"power": 3}, {"slope": 1.0}]
    assert broken is None


def test_an_optional_array_is_given() -> None:
    subjects, _ = variants(Gradient(lambda x, bias=None: x if bias is None else x + bias))
    assert shapes(subjects[0]) == {"x": (3,), "bias": (3,)}
    assert subjects[0].leaves[1].source == "given, not left out"


def test_two_that_are_left_out_together_are_given_together() -> None:
    def both(x, scale=None, shift=None):
        if (scale is None) != (shift is None):
            raise ValueError("both or none")
        return x if scale is None else x * scale + shift

    subjects, _ = variants(Gradient(both))
    assert shapes(subjects[0]) == {"x": (3,), "scale": (3,), "shift": ()}


def test_what_the_function_refuses_is_no_variant() -> None:
    def plain(x, flag=True):
        if not flag:
            raise ValueError("always on")
        return x

    assert variants(Gradient(plain)) == ([], None)


def test_a_rule_that_is_certainly_broken_stands_for_all_variants() -> None:
    error = RuleError("TypeError", "one gradient too few", certain=True)

    class Broken(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if "flag" in fixed(signature):
                raise error
            return super().fit(signature, dtype)

    subjects, broken = variants(Broken(lambda x, flag=True, power=2: x))
    assert subjects == []
    assert broken is not None
    assert (fixed(broken[0]), broken[1]) == ({"flag": False}, error)
