"""What the judged inputs of one signature would have shown, with each static argument moved, too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradcheck_cli.adequacy.adequacy import adequacy
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.inputs.names import counts_terms, ends_iterations
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Signature
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError

_MOST = 3  # statics, a trace each


def adequate(request: Request, m: Measurements) -> GradientOutcome:
    """The showings of small changes; none of a plain function, which has no rule."""
    if not m.ruled:
        return GradientOutcome()
    with request.progress.timing("adequacy"):
        return GradientOutcome(showings=adequacy(m, list(_moved_statics(request, m))))


def _moved_statics(request: Request, m: Measurements) -> Iterator[tuple[str, Program]]:
    """Pullbacks of the function, each with another number or flag for one argument."""
    defaults = {p.name: p.default for p in request.gradient.parameters()}
    subject, count = m.subject, 0
    signature = subject.signature
    for name, value in signature.arguments:
        plain = defaults.get(name) if value is OMITTED else getattr(value, "value", None)
        other = None if _only_goes_on(name, plain, m) else _other(plain)
        if other is None or count == _MOST:
            continue
        count += 1
        arguments = tuple(
            (n, Fixed(other, repr(other), "moved") if n == name else v)
            for n, v in signature.arguments
        )
        try:
            there = request.gradient.fit(Signature(arguments, signature.keywords), subject.dtype)
            program = there.traces().primal
        except (Rejected, RuleError, UserCodeError):  # it takes no other, or not at these shapes
            continue
        if program is not None:
            yield f"`{name}` = {plain!r} → {other!r}", program


def _only_goes_on(name: str, value: Any, m: Measurements) -> bool:
    """Is it how many steps or terms lead to a limit? With one more the function is the same."""
    counts = counts_terms(name) or ends_iterations(name) or bool(m.sources.seeks)
    return type(value) is int and counts


def _other(value: Any) -> float | int | bool | None:
    """Another value of the same kind; none of what is neither a number nor a flag."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 1.5 * value if value else 0.5
    return None
