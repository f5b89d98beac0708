"""Another way to make the same call, and what can go wrong in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.errors import CgcheckError
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.subject.results import Array


class WentWrong(CgcheckError):
    """What went wrong while a call was made in another way, with the rule that it breaks.

    `during` names that way where the message begins with it; `error` is the rest, the same in all ways.
    """

    def __init__(
        self, rule: RuleName, severity: Severity, error: str, during: str | None = None
    ) -> None:
        self.rule, self.severity, self.error = rule, severity, error
        self.message = error if during is None else f"{during}, {error}"
        super().__init__(self.message)


@dataclass(frozen=True, slots=True)
class OtherCall:
    """Another way to make the same call: it gives gradients, and those it must give.

    None among them: not asked for. None alone: it says nothing here. `rule` and `severity` are of the
    finding if they differ.
    """

    name: str
    run: Callable[
        [Sequence[Array], Sequence[Array]], tuple[Sequence[Array | None], Sequence[Array]] | None
    ]
    rule: RuleName = RuleName.CONTEXT_DEPENDENT_GRADIENT
    severity: Severity = Severity.ERROR
    says: str = "{}, the gradient is {}, else it is {}"
    help: str | None = None  # if the rule's own does not fit
    beside_formula: bool = False  # it differs wherever the formula is wrong
