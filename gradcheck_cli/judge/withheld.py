"""Rules that say outright that an argument gets no gradient, beside others that get theirs (SEMANTICS G).

Who writes `return g * rate, None` has thought of the argument: mostly it is data, of which no text says so.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.deviation import is_of_formula
from gradcheck_cli.judge.intents.intent import argument_of, common_cells, formula
from gradcheck_cli.judge.intents.zero import ZERO
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import Declared


def as_withheld(
    failures: Sequence[Failure], m: Measurements, names: Collection[str]
) -> list[Failure]:
    """The failures, with those of such arguments as what they are; `names` get nothing by the rule's text."""
    asked = [f for f in failures if is_of_formula(f) and argument_of(m, f.component) in names]
    if not asked or m.rule is None or m.in_part:
        return list(failures)
    silent = _silent(m)
    if all(silent.values()):
        return list(failures)
    return [
        _told(f, argument_of(m, f.component))
        if f in asked and silent.get(argument_of(m, f.component))
        else f
        for f in failures
    ]


def _told(failure: Failure, name: str) -> Failure:
    return replace(
        failure,
        rule=RuleName.UNDECLARED_DEVIATION,
        severity=Severity.WARNING,
        ground=Ground(Kind.DEVIATION, f"withheld from {name}"),
        message=f"the rule says that `{name}` gets no gradient, and the function does depend on it: "
        "right if it is data, forgotten if it is learned",
        expect=f"expect({Declared(ZERO.name, name).text})",
        everywhere=True,
        holds=None,
        as_grave=None,
    )


def _silent(m: Measurements) -> dict[str, bool]:
    """Each argument on which the function depends: does the rule give it nothing at all?"""
    ours, truth = formula(m), m.reference.balls(GRADIENTS)
    silent: dict[str, bool] = {}
    for cell in common_cells(m):
        if truth[cell] != 0 or ours[cell] != 0:
            name = argument_of(m, cell[1])
            silent[name] = silent.get(name, True) and bool(np.all(ours[cell] == 0))
    return silent
