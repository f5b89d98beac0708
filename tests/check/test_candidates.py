"""Candidates beside the inputs that are judged: refused by the rule, in vain, and the comment to write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gradcheck_cli.check.candidates import candidates
from gradcheck_cli.contract.worker import Candidates
from gradcheck_cli.infer.probing import probe
from gradcheck_cli.inputs.signature import Hints, Leaf, Signature
from gradcheck_cli.project.input_specs import parse
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import Place
from tests.check.fakes import TASK, Asked, opening
from tests.infer.fitted import NO_HINTS, Gradient


class Scaled(Gradient):
    """A rule that takes a weight of one axis, no other."""

    place = Place("/there/a.py", 5, "scaled")

    def fit(self, signature: Signature, dtype: str) -> Any:
        subject = super().fit(signature, dtype)
        if len(signature.leaves[1].shape) != 1:
            raise RuleError("shape", "the weight has one axis\nand not two")
        return subject


def scaled(x, weight):
    return (x * weight).sum(-1)


def met(hints: Hints = NO_HINTS, path: str = "/there/a.py") -> Candidates:
    gradient: Any = Scaled(scaled)
    request = replace(Asked().request(replace_task(path)), gradient=gradient)
    return candidates(request, opening(hints=hints), probe(gradient, "float32", hints))


def replace_task(path: str) -> Any:
    return type(TASK)(**{f: getattr(TASK, f) for f in TASK.__struct_fields__} | {"path": path})


def test_the_richest_inputs_as_a_comment_with_the_place_of_the_definition() -> None:
    there = met()
    assert there.comment == "x=f32[b d], weight=f32[d]"
    assert there.first_line == 5
    assert there.vain > 0
    assert there.first_refusal.startswith("x of (")
    assert {each.reason for each in there.refused} == {"the weight has one axis"}
    assert there.refused[0].inputs == "x: float[], weight: float[]"


def test_a_definition_in_another_file_has_no_line() -> None:
    assert met(path="/there/b.py").first_line == 0


def test_what_the_user_states_is_not_said_again() -> None:
    stated = replace(NO_HINTS, specs=parse("x=f32[n], weight=f32[n]"), spec_source="the settings")
    there = met(stated)
    assert (there.comment, there.stated_by) == ("", "the settings")
    nothing = met(replace(NO_HINTS, spec_source="the input signature of its tf.function"))
    assert (nothing.comment, nothing.stated_by) == ("x=f32[b d], weight=f32[d]", "")


def test_sizes_stand_where_names_do_not_fit() -> None:
    class Square(Scaled):
        def fit(self, signature: Signature, dtype: str) -> Any:
            if np.prod(signature.leaves[0].shape, dtype=int) not in (9, 16):
                raise RuleError("shape", "nine or sixteen")
            return super().fit(signature, dtype)

    gradient: Any = Square(scaled)
    request = replace(Asked().request(), gradient=gradient)
    (subject,) = [gradient.fit(_of((4, 4), (4,)), "float32")]
    attempt = replace(probe(gradient, "float32", NO_HINTS), subjects=[subject])
    assert candidates(request, opening(), attempt).comment == "x=f32[n n], weight=f32[n]"
    (subject,) = [gradient.fit(_of((2, 8), (8,)), "float32")]
    attempt = replace(attempt, subjects=[subject])
    assert candidates(request, opening(), attempt).comment == "x=f32[2 8], weight=f32[8]"


def _of(*shapes: tuple[int, ...]) -> Signature:
    pairs = zip(("x", "weight"), shapes, strict=True)
    return Signature(tuple((name, Leaf(name, shape, "test")) for name, shape in pairs))
