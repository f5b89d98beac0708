"""What rests on a function that cgcheck made up is a note, and leaves the gradient undecided."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.check.checked import checked
from gradcheck_cli.check.invented import invention, softened
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.contract.report import LawResult, Outcome, Severity, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.infer.options import options
from gradcheck_cli.inputs.signature import Fixed, Hints, Leaf, Parameter, Signature
from gradcheck_cli.inputs.stand_ins import static_stand_ins
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.results import Place
from tests.check.fakes import Asked, FakeGradient, opening

X = ("x", Leaf("x", (3,), "test"))
PLAIN = Signature((X,))
INVENTED = Signature((("f", Fixed(np.tanh, "jnp.tanh", "test", invented=True)), X))
WRONG = GradientOutcome(
    checked=True,
    points=7,
    findings=(find(RuleName.GRADIENT_MISMATCH).finding("a.py", 7, "it is wrong", about="f"),),
    laws=(LawResult(law="formula", outcome=Outcome.FAIL, points=7),),
)


@dataclass(frozen=True)
class Reached(FakeGradient):
    """A gradient that a factory made when it was called with a function that was made up."""

    @property
    def place(self) -> Place:
        return Place("a.py", 7, self.qualname, invented="`tanh` for `fn`")


def test_an_error_becomes_a_note_that_names_the_function() -> None:
    soft = softened(Asked().request(), INVENTED, WRONG)
    (note,) = soft.findings
    assert note.severity is Severity.NOTE
    assert note.message == "it is wrong; it rests on `jnp.tanh` for `f`, which cgcheck made up"
    (law,) = soft.laws
    assert law.outcome is Outcome.NOT_COVERED


def test_the_gradient_stays_undecided() -> None:
    request = Asked().request()
    soft = softened(request, INVENTED, WRONG)
    assert checked(request, opening(), soft).gradient.verdict is Verdict.INCONCLUSIVE
    assert checked(request, opening(), WRONG).gradient.verdict is Verdict.WRONG


def test_what_is_right_and_what_the_user_chose_stay_as_they_are() -> None:
    request = Asked().request()
    right = GradientOutcome(checked=True, moves=True, points=7)
    assert softened(request, INVENTED, right) is right
    assert softened(request, PLAIN, WRONG) is WRONG


def test_what_passes_with_a_function_of_nobody_is_not_proved() -> None:
    request = Asked().request()
    passing = LawResult(law="formula", outcome=Outcome.PASS, points=7)
    right = GradientOutcome(checked=True, moves=True, points=7, laws=(passing,))
    soft = softened(request, INVENTED, right)
    assert checked(request, opening(), soft).gradient.verdict is Verdict.INCONCLUSIVE
    (why,) = checked(request, opening(), soft + soft).not_covered
    assert why.reason == "it rests on `jnp.tanh` for `f`, which cgcheck made up"
    assert why.add == "a run that calls it: `cgcheck record -- COMMAND`"
    made: Any = Reached()
    assert softened(replace(request, gradient=made), PLAIN, right) is right


def test_a_factory_that_was_called_with_a_made_up_function_counts_as_well() -> None:
    assert invention(Reached(), PLAIN) == "`tanh` for `fn`"
    assert invention(Reached(), INVENTED) == "`jnp.tanh` for `f`"
    assert invention(FakeGradient(), PLAIN) == ""


@pytest.mark.parametrize("annotation", [None, "Callable"])
def test_functions_that_are_offered_are_marked(annotation: str | None) -> None:
    hints = Hints(keys={}, unpacked={}, functions=[("tanh", np.tanh)])
    parameter = Parameter("q", 0, False, keyword_only=False, annotation=annotation)
    offered: list[Any] = [o for o in options(parameter, (3,), hints) if callable(o.value)]
    assert [o.invented for o in offered] == [True]
    assert [f.invented for f in static_stand_ins((3,), []) if callable(f.value)] == []
