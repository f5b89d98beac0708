"""What repairs did to one file: which of its gradients are better for them, and which are worse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.contract.report import Finding, Gradient, Report, Severity, Verdict
from gradcheck_cli.run.change import Change

_Key = tuple[str, str]  # the name of a gradient, and its backend

# The formula is right, whatever its floats do.
_RIGHT = (Verdict.CORRECT, Verdict.INTENDED, Verdict.UNSTABLE)


@dataclass(frozen=True, slots=True)
class RepairedFile:
    """A change that was written, with the reports before and after it."""

    change: Change
    before: Report
    after: Report

    @property
    def is_better(self) -> bool:
        """Is no gradient worse than before, and one of them right now, or are errors and warnings fewer?"""
        if self._worse():
            return False
        old, new = self._verdicts(self.before), self._verdicts(self.after)
        right = any(new[key].rank < old[key].rank and new[key] in _RIGHT for key in old)
        return right or len(self._grave(self.after)) < len(self._grave(self.before))

    def useful(self) -> list[Finding]:
        """The findings of which the repair did its gradient good; of what is about no gradient, all unless one is worse."""
        helped, worse = self._helped(), self._worse()
        owners = ((finding, self._owner(finding)) for finding in self.change.repaired)
        return [f for f, owner in owners if (not worse if owner is None else owner in helped)]

    def useless(self) -> list[Finding]:
        """The other findings."""
        useful = self.useful()
        return [finding for finding in self.change.repaired if finding not in useful]

    def _worse(self) -> set[_Key]:
        """Gradients that are gone, graver than before, or of which nothing is known any more."""
        old, new = self._verdicts(self.before), self._verdicts(self.after)
        return {
            key
            for key, verdict in old.items()
            if key not in new
            or new[key].rank > verdict.rank
            or (new[key] is Verdict.INCONCLUSIVE and verdict is not Verdict.INCONCLUSIVE)
        }

    def _helped(self) -> set[_Key]:
        """Gradients that are right now, or of which less is told."""
        old, new = self._verdicts(self.before), self._verdicts(self.after)
        before, after = self._owners(self.before), self._owners(self.after)
        return {
            key
            for key in set(old) - self._worse()
            if (new[key].rank < old[key].rank and new[key] in _RIGHT)
            or after.count(key) < before.count(key)
        }

    def _owners(self, report: Report) -> list[_Key]:
        """Whose the errors and warnings are that are about a gradient of the file."""
        owned = (f.gradient_index for f in self._grave(report))
        return [_key(report.gradients[owner]) for owner in owned if owner is not None]

    def _owner(self, finding: Finding) -> _Key | None:
        owner = finding.gradient_index
        return None if owner is None else _key(self.before.gradients[owner])

    def _verdicts(self, report: Report) -> dict[_Key, Verdict]:
        return {
            _key(g): g.verdict or Verdict.INCONCLUSIVE
            for g in report.gradients
            if g.path == self.change.display
        }

    def _grave(self, report: Report) -> Sequence[Finding]:
        here = self.change.display
        return [f for f in report.findings if f.severity is not Severity.NOTE and f.path == here]


def _key(gradient: Gradient) -> _Key:
    return gradient.qualname, gradient.backend
