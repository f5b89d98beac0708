"""Arguments for which a rule gives nothing at all: one cause, told once, as what it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gradcheck_cli.clues.withheld import is_none, withheld
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.declarations import comment_for
from gradcheck_cli.judge.intents.intent import argument_of
from gradcheck_cli.measure.components import GRADIENTS, columns
from gradcheck_cli.measure.failure import Failure, Kind
from gradcheck_cli.measure.measurements import Array, Measurements
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.subject.protocol import CustomGradient


def as_one(failures: Sequence[Failure], m: Measurements, gradient: CustomGradient) -> list[Failure]:
    """The failures, with those of arguments that get nothing as one, in the place of the first."""
    silent = [f for f in failures if _gives_nothing(f, m)]
    data = [f for f in failures if f.ground.kind is Kind.DATA]
    told = _folded(failures, silent, _nothing(silent, m, _none_in(gradient)))
    return _folded(told, data, _of_data(data, m) if len(data) > 1 else None)


def with_comment(failure: Failure, m: Measurements) -> Failure:
    """The failure with the comment that declares it."""
    return failure if failure.expect else replace(failure, expect=comment_for(failure, m))


def _folded(
    failures: Sequence[Failure], some: Sequence[Failure], told: Failure | None
) -> list[Failure]:
    """The failures, with what is told of some of them in the place of the first of these."""
    if told is None:
        return list(failures)
    return [told if f is some[0] else f for f in failures if f is some[0] or f not in some]


def _nothing(silent: Sequence[Failure], m: Measurements, none: set[str]) -> Failure | None:
    """One failure for all of them; none, where one argument gets zeros: that may be a factor like any other."""
    names = [argument_of(m, failure.component) for failure in silent]
    all_none = none.issuperset(names)
    if not names or (len(names) == 1 and not all_none):
        return None
    several = len(names) > 1
    message = (
        f"the rule gives {'None' if all_none else 'zero'} for {_listed(names)}: no gradient reaches "
        f"{'them, and their derivatives are' if several else 'it, and its derivative is'} not zero"
    )
    meant = ", ".join(f"expect({Declared('zero', name).text})" for name in names)
    return replace(silent[0], message=message, expect=meant)


def _of_data(data: Sequence[Failure], m: Measurements) -> Failure:
    names = [argument_of(m, failure.component) for failure in data]
    message = (
        f"no gradient is given for {_listed(names)}, data by their names; the truth is not zero"
    )
    return replace(data[0], message=message)


def _listed(names: Sequence[str]) -> str:
    return " and ".join(f"`{name}`" for name in names)


def _gives_nothing(failure: Failure, m: Measurements) -> bool:
    """Is the rule's gradient zero everywhere for an argument beside others?"""
    error = failure.severity is Severity.ERROR and failure.rule == RuleName.GRADIENT_MISMATCH
    if not error or failure.what != GRADIENTS or len(m.subject.leaves) == 1:
        return False
    judged = getattr(m.floats[m.mode], m.judged) or []
    return not _of_argument(failure, m, columns(judged, m.count)).any()


def _of_argument(failure: Failure, m: Measurements, gradients: Array) -> Array:
    """The columns of the argument that a failure is about."""
    start = 0
    for _, elements in m.components(GRADIENTS):
        stop = start + len(elements)
        if start <= failure.component < stop:
            return gradients[:, start:stop]
        start = stop
    raise IndexError(failure.component)


def _none_in(gradient: CustomGradient) -> set[str]:
    """The arguments in whose places every `return` of the rule says `None`."""
    said = withheld(gradient.rule_code(), gradient.parameters())
    return {name for name, given in said.items() if all(map(is_none, given))}
