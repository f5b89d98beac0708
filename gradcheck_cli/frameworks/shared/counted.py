"""Series that go on (SEMANTICS B6): the same function with more terms, by the argument that says how many it takes.

As with an iteration, whether it has a limit is a matter of numbers: those of more terms, and of more still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from gradcheck_cli.frameworks.shared.run_on import Iteration
from gradcheck_cli.inputs.names import counts_terms
from gradcheck_cli.inputs.signature import OMITTED, Fixed
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Array, Limits

_MOST_TERMS = 300  # of the longest series that is tried: each may be a step of a trace


def limits_of_series(
    fitted: Any, points: Sequence[Array], cotangents: Sequence[Array]
) -> Limits | None:
    """What function and rule give with more terms, and with more still; None if nothing counts terms."""
    for name, count in _counts(fitted):
        near, far = (_with_terms(fitted, name, terms) for terms in (2 * count + 1, 3 * count + 2))
        if near is None or far is None:
            continue
        both = [iteration.ended(points, cotangents) for iteration in (near, far)]
        if both[0] is not None and both[1] is not None:
            (truth_near, rule_near), (truth_far, rule_far) = both[0], both[1]
            return Limits((truth_near, truth_far), (rule_near, rule_far))
    return None


def _counts(fitted: Any) -> Iterator[tuple[str, int]]:
    """The arguments that say how many terms there are, with how many."""
    defaults = {p.name: p.default for p in fitted.gradient.parameters()}
    for name, value in fitted.signature.arguments:
        number = defaults.get(name) if value is OMITTED else getattr(value, "value", None)
        if counts_terms(name) and type(number) is int and 0 < 3 * number <= _MOST_TERMS:
            yield name, number


def _with_terms(fitted: Any, name: str, terms: int) -> Iteration | None:
    """Function and rule with so many terms; None where they have no trace."""
    signature = fitted.signature.with_argument(name, Fixed(terms, str(terms), "more terms"))
    try:
        iteration: Iteration | None = replace(fitted, signature=signature).iteration()
    except (Rejected, RuleError):
        return None
    return iteration
