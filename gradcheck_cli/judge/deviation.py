"""Rules that scale, reverse, clip or stop what a function only hands on: deviations that are meant (SEMANTICS G).

Such a function is the identity, or it moves what it is given: a transpose, a pad, a slice. Nobody needs a
rule of one's own for it but to change the gradient on its way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Fixed
from gradcheck_cli.judge.intents.clipped import CLIPPED
from gradcheck_cli.judge.intents.intent import common_cells, formula
from gradcheck_cli.judge.intents.scaled import SCALED
from gradcheck_cli.judge.intents.zero import ZERO
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.handed_on import in_place, origins
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import Declared

# What a text may mean and no comment can declare: gradients that are normalised.
_RESIZED = Declared("resized", None)
# What is done to it then, no law says.
_OTHERWISE = ("transform", "rotat", "project")
_ANSWERED = (RuleName.GRADIENT_MISMATCH, RuleName.NONLINEAR_COTANGENT)


def as_meant(failures: Sequence[Failure], m: Measurements, word: str) -> list[Failure]:
    """The failures, with those of such a rule as one of its own; `word` is what its text says of that."""
    wrong = [f for f in failures if is_of_formula(f)]
    whence = origins(m) if wrong and m.rule is not None and not m.in_part else None
    if whence is None:
        return list(failures)
    stays = in_place(whence, m)
    meant = _deviation(wrong, m, stays)
    if meant is None and stays and word and _never_turned(m):
        meant = _RESIZED
    if meant is None and stays and word in _OTHERWISE:
        message = (
            "the function hands its input on as it is, and the rule gives another gradient, as its name or "
            f"its text says (“{word}”): what it should be, no law tells"
        )
        return as_question(failures, wrong, message)
    if meant is None:
        return list(failures)
    visible = _sign(meant, m, word)
    told = replace(
        wrong[0],
        rule=RuleName.UNDECLARED_DEVIATION,
        severity=Severity.NOTE if visible else Severity.WARNING,
        ground=Ground(Kind.DEVIATION, meant.name),
        message=_message(meant, stays, visible),
        expect=None if meant is _RESIZED else f"expect({meant.text})",
        everywhere=True,
        holds=None,
        as_grave=None,
    )
    return _in_place_of(wrong, told, failures)


def as_question(
    failures: Sequence[Failure], wrong: Sequence[Failure], message: str
) -> list[Failure]:
    """The failures, with the wrong ones as one question: it deviates on purpose, and no law says how it should."""
    told = replace(
        wrong[0],
        rule=RuleName.INCONCLUSIVE_GRADIENT,
        severity=Severity.WARNING,
        ground=Ground(Kind.DOUBT, "on purpose"),
        message=message,
        everywhere=True,
        holds=None,
        as_grave=None,
    )
    return _in_place_of(wrong, told, failures)


def _in_place_of(
    wrong: Sequence[Failure], told: Failure, failures: Sequence[Failure]
) -> list[Failure]:
    """The failures, with one that is told in the place of those that it stands for."""
    return [told if f is wrong[0] else f for f in failures if f is wrong[0] or f not in wrong]


def is_of_formula(failure: Failure) -> bool:
    return failure.rule in _ANSWERED and failure.severity is Severity.ERROR


def _deviation(failures: Sequence[Failure], m: Measurements, stays: bool) -> Declared | None:
    """The narrowest deviation that the rule is, as one would declare it; only what stays in its place may be stopped."""
    for intent in (ZERO, SCALED, CLIPPED) if stays else (SCALED, CLIPPED):
        for failure in (f for f in failures if f.rule in intent.answers):
            for argument in intent.candidates(failure, m):
                if argument not in ("0", "-0") and intent.broken(m, argument) is None:
                    return Declared(intent.name, argument)
    return None


def _never_turned(m: Measurements) -> bool:
    """Has the rule's gradient the sign of the truth wherever both are known?"""
    ours, truth = formula(m), m.reference.balls(GRADIENTS)
    pairs = [(ours[cell], truth[cell]) for cell in common_cells(m)]
    return all((a >= 0 and b >= 0) or (a <= 0 and b <= 0) for a, b in pairs)


def _sign(meant: Declared, m: Measurements, word: str) -> str:
    """What shows that the deviation is meant; nothing where nothing does."""
    factor = _number(meant)
    if meant.name == SCALED.name and factor is None:
        return f"by its argument `{(meant.argument or '').removeprefix('-')}`"
    for name, value in m.subject.signature.arguments if factor is not None else ():
        plain = value.value if isinstance(value, Fixed) else None
        if isinstance(plain, float) and factor is not None and abs(plain) == abs(factor):
            return f"by its argument `{name}`"
    if word:
        return f"as its name or its text says (“{word}”)"
    return "which is no slip of a factor" if factor == -1 else ""


def _number(meant: Declared) -> float | None:
    """The factor of what is scaled by a number."""
    try:
        return float(meant.argument or "") if meant.name == SCALED.name else None
    except ValueError:
        return None


def _message(meant: Declared, stays: bool, visible: str) -> str:
    factor = _number(meant)
    if meant.name == ZERO.name:
        does = "stops the gradient"
    elif meant.name == CLIPPED.name:
        does = "clips the gradient"
    elif meant is _RESIZED:
        does = "changes the size of the gradient, never its sign"
    elif factor == -1:
        does = "reverses the gradient"
    else:
        does = f"gives {meant.argument} times the gradient"
    hands = "hands its input on as it is" if stays else "only moves its input"
    return f"the function {hands}, and the rule {does}" + (f", {visible}" if visible else "")
