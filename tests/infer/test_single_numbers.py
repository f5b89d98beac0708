"""A single number beside arrays."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gradcheck_cli.infer.single_numbers import broadcast_refused
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.project.input_specs import ArraySpec, Spec
from gradcheck_cli.subject.refusals import RuleError
from tests.infer.fitted import NO_HINTS, Gradient

ARRAY = ArraySpec("float", (3,), None, "f32[3]")


@pytest.mark.parametrize(
    ("refuses", "said", "single"),
    [
        (True, {}, "x: float[], y: float[3]"),
        (False, {}, None),
        (True, {"x": ARRAY}, "x: float[3], y: float[]"),
        (True, {"x": ARRAY, "y": ARRAY}, None),
    ],
)
def test_a_single_number_beside_arrays_may_be_refused_by_the_rule_alone(
    refuses: bool, said: dict[str, Spec], single: str | None
) -> None:
    class Narrow(Gradient):
        def fit(self, signature: Signature, dtype: str) -> Any:
            sizes = {leaf.shape for leaf in signature.leaves}
            if refuses and len(sizes) > 1:
                raise RuleError("shape", "they are not alike")
            return super().fit(signature, dtype)

    gradient = Narrow(lambda x, y: x * y)
    subject = gradient.fit(Signature(tuple((n, Leaf(n, (3,), "test")) for n in "xy")), "float32")
    guesses = {name: (spec, "the docstring") for name, spec in said.items()}
    hints = replace(NO_HINTS, guesses=guesses)
    narrow = broadcast_refused(gradient, [subject], "float32", hints)
    assert (None if narrow is None else narrow[0].describe()) == single
