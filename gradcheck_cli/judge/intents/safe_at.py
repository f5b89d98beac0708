"""`expect(safe-at: x = 0)`: a number in the place of a pole or of a jump, the truth elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradcheck_cli.contract.limits import RADIUS
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents.intent import at, common_cells
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.formula_gap import comparison
from gradcheck_cli.measure.measurements import Measurements


@dataclass(frozen=True, slots=True)
class SafeAt:
    name: str = "safe-at"
    answers: frozenset[RuleName] = frozenset(
        {RuleName.GRADIENT_MISMATCH, RuleName.SAFE_AT_SINGULARITY}
    )

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        """Formula and truth differ only beside the place."""
        name, _, number = (argument or "").partition("=")
        paths = [leaf.path for leaf in m.subject.leaves]
        if name.strip() not in paths:
            return f"there is no argument `{name.strip()}`"
        values = m.points[paths.index(name.strip())].reshape(m.count, -1)
        near = np.asarray(np.abs(values - float(number)).min(axis=1) <= RADIUS.value)
        facts = comparison(m)
        for row, k in common_cells(m):
            if facts.differs[row, k] and not near[row]:
                return f"at {at(m, row)} the rule is not the derivative, and {argument} is not near"
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        yield from ()  # the place is the author's to say

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


SAFE_AT = SafeAt()
