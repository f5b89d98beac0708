"""Failures that no declaration explains, as what names and texts say of the rule lets them be understood."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import root
from gradcheck_cli.judge.deviation import as_meant, as_question, is_of_formula
from gradcheck_cli.judge.frozen import as_frozen
from gradcheck_cli.judge.intents.declarations import Declarations
from gradcheck_cli.judge.projection import as_projected
from gradcheck_cli.judge.through_steps import as_passed, as_passed_in_part
from gradcheck_cli.judge.withheld import as_withheld
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import DEVIATES, HELD, ON_PURPOSE, WITHHELD, Declared

_STRAIGHT_THROUGH = "straight-through"
# Words of a text for elements that get no gradient; what stops or blocks may be anything.
_KEPT = ("freez", "frozen")


def unexplained(
    failures: Sequence[Failure], m: Measurements, intents: Sequence[Declared]
) -> tuple[list[Failure], Declarations]:
    """What is left of the failures, and which declarations answered for the others."""
    declarations = Declarations(list(intents))
    left = declarations.answer(failures, m)
    said = {d.name: d.argument or "" for d in intents if d.in_prose}
    words = "" if _is_of_no_argument(intents, m) else said.get(ON_PURPOSE, "")
    if not words and _STRAIGHT_THROUGH in said and _steps(failures):
        words = _STRAIGHT_THROUGH
    meant = as_projected(as_meant(left, m, said.get(DEVIATES, "")), m)
    meant = as_withheld(meant, m, [d.argument or "" for d in intents if d.name == WITHHELD])
    meant = as_passed(meant, m, visible=_STRAIGHT_THROUGH in said)
    frozen = said.get(DEVIATES, "") if said.get(DEVIATES, "") in _KEPT else ""
    told = on_purpose(as_frozen(meant, m, words or frozen), m, words)
    if _STRAIGHT_THROUGH in said:
        told = as_passed_in_part(told, m)
    return told, declarations


def _is_of_no_argument(intents: Sequence[Declared], m: Measurements) -> bool:
    """Is all that a text holds constant something that is not differentiated in any case?"""
    held = {d.argument for d in intents if d.name == HELD}
    return bool(held) and not held & {root(leaf.path) for leaf in m.subject.leaves}


def _steps(failures: Sequence[Failure]) -> bool:
    """Is the function a step in one of its arguments, and the rule is not?"""
    return any(f.rule == RuleName.UNDECLARED_SURROGATE for f in failures)


def on_purpose(failures: Sequence[Failure], m: Measurements, words: str) -> list[Failure]:
    """The failures, with those of the formula as a question where a text says outright that it deviates.

    No law says what the derivative should be then: neither right nor wrong is known.
    """
    wrong = [f for f in failures if is_of_formula(f)]
    if not wrong or not words or not m.ruled:
        return list(failures)
    message = (
        "the formula is not the derivative of the function, and its text says that it is "
        f"another one (“{words}”): what it should be, no law tells"
    )
    return as_question(failures, wrong, message)
