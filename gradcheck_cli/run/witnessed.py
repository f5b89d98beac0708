"""What the linter told of an expression, and what came of it when the gradient around it was run.

A finding of the run that an expression is the cause of takes over what the linter knows of it: its rule's name, its
repair. Where the run found nothing although it looked, the linter's finding is withdrawn. The rest stays as it is.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Outcome, Severity, Status, Verdict
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Checked
from gradcheck_cli.project.framework_marks import SOLUTIONS
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.source_parts import Parts
from gradcheck_cli.project.suppressions import suppressed
from gradcheck_cli.run.target_file import File

_DERIVATIVES = frozenset(
    {"jvp", "vjp", "grad", "value_and_grad", "linearize", "jacfwd", "jacrev", "GradientTape"}
)
_PLAIN = "function"  # a kind of gradient: that of autodiff
_OF_FLOATS = frozenset({"finite", "precision"})
_IMPRECISE = (RuleName.IMPRECISE_GRADIENT, RuleName.IMPRECISE_VALUE)
_NON_FINITE = (RuleName.NON_FINITE_GRADIENT, RuleName.NON_FINITE_VALUE)


def witness(file: File) -> None:
    """Join what the linter told of a file with what its gradients showed; of a part of a file it tells what stands there."""
    if file.tree is not None and file.gradients:
        _Joint(file, Parts(file.tree)).join()
    elif not file.whole:
        file.linted = []


@dataclass(frozen=True, slots=True)
class _Joint:
    """A file and the lines of its gradients, while both sides are joined."""

    file: File
    parts: Parts

    def join(self) -> None:
        file = self.file
        told = [f for f in file.linted if find(f.rule).patterns and not suppressed(f, file.ignores)]
        explained = [each for each in told if self._explains(each, self._is_cause)]
        rest = [each for each in told if each not in explained]
        explained += [each for each in rest if self._explains(each, self._is_twin)]
        left = [each for each in file.linted if each not in explained and self._is_asked(each)]
        file.linted = [self._withdrawn_if_unseen(each) for each in left]

    def _is_asked(self, told: Finding) -> bool:
        """Is it about what was named?"""
        return self.file.whole or any(self._holds(c.gradient, told) for c in self.file.gradients)

    def _explains(self, told: Finding, how: Callable[[Finding, Finding], bool]) -> bool:
        """Does it explain what the run found? Then the run's findings know of it from here on."""
        hit = False
        for i, checked in enumerate(self.file.gradients):
            if _is_passed_over(told, checked.gradient) or not self._holds(checked.gradient, told):
                continue
            # A finding has one form: what another rule tells of the same place stays.
            explained = [f.pattern in (None, told.rule) and how(told, f) for f in checked.findings]
            if any(explained):
                pairs = zip(checked.findings, explained, strict=True)
                known = [_knowing(f, told) if is_so else f for f, is_so in pairs]
                self.file.gradients[i] = replace(checked, findings=known)
                hit = True
        return hit

    def _holds(self, gradient: Gradient, told: Finding) -> bool:
        """Does the expression stand in the gradient's function, or in its rule?"""
        lines = self.parts.of(gradient.line) if gradient.path == self.file.display else ()
        return any(told.line in part for part in lines)

    def _fails_in_its_rule(self, checked: Checked, told: Finding) -> bool:
        """Does the rule hold the expression and differentiate something itself, and give no number somewhere, be it only at a kink?"""
        line = checked.gradient.line
        parts = self.parts.of(line) if checked.gradient.path == self.file.display else ()
        rules = [part for part in parts if told.line in part and line not in part]
        fails = any(f.rule == RuleName.NON_FINITE_GRADIENT for f in checked.findings)
        return fails and any(map(self._differentiates, rules))

    def _differentiates(self, lines: range) -> bool:
        """Is a derivative asked for in these lines?"""
        nodes = ast.walk(self.file.tree) if self.file.tree is not None else ()
        names = (getattr(n, "attr", getattr(n, "id", "")) for n in nodes if getattr(n, "lineno", 0) in lines)  # fmt: skip
        return any(name in _DERIVATIVES for name in names)

    def _is_cause(self, told: Finding, finding: Finding) -> bool:
        """Did the run find the cause in the expression, or in what it is computed from in the same function?"""
        rule, cause = find(finding.rule), finding.cause
        if not rule.about_floats:
            return False
        if cause is None or cause.line is None:
            return finding.rule in _NON_FINITE and not find(told.rule).digits
        if cause.path not in (None, self.file.display):
            return False
        last = told.end_line or told.line
        if told.line <= cause.line <= last:
            return True
        inner = self.parts.innermost(told.line)
        return (
            cause.line in inner
            and cause.line <= last
            and not self._is_told_between(cause.line, told)
        )

    def _is_twin(self, told: Finding, finding: Finding) -> bool:
        """Is the same written elsewhere in a gradient that fails for it, as in a primal and its forward?"""
        return finding.pattern == told.rule

    def _is_told_between(self, line: int, told: Finding) -> bool:
        """Is another expression of the function nearer to the cause, or at it, that was told of?"""
        inner = self.parts.innermost(told.line)
        return any(
            line <= (other.end_line or other.line) and other.line < told.line
            for other in self.file.linted
            if find(other.rule).patterns and self.parts.innermost(other.line) == inner
        )

    def _withdrawn_if_unseen(self, told: Finding) -> Finding:
        """A note where the run shows, of every gradient around it, that it does not matter there."""
        around = [c.gradient for c in self.file.gradients if self._holds(c.gradient, told)]
        rule = find(told.rule)
        if not rule.patterns or not around:
            return told
        name = around[0].qualname
        if rule.gradient_only and any(
            self._fails_in_its_rule(c, told) for c in self.file.gradients
        ):
            return told
        if all(map(_has_shown_nothing, around)):
            why = f"{around[0].points} probes of `{name}` do not show it"
        elif all(_is_passed_over(told, gradient) for gradient in around):
            why = f"`{name}` has a rule, and autodiff does not go through it"
        else:
            return told
        message = f"{told.message}: withdrawn, for {why}"
        return replace(told, severity=Severity.NOTE, message=message, withdrawn_by=name)


def _is_passed_over(told: Finding, gradient: Gradient) -> bool:
    """Is only its gradient unstable, where a rule stands in place of autodiff?"""
    return find(told.rule).gradient_only and gradient.kind not in (_PLAIN, *SOLUTIONS)


def _knowing(finding: Finding, told: Finding) -> Finding:
    """The run's finding with the linter's name for it, and with its repair at each place."""
    new = [edit for edit in told.edits if edit not in finding.edits]
    if finding.pattern is not None:
        same = finding.edits and finding.fix == told.fix
        return replace(finding, edits=[*finding.edits, *new]) if same else finding
    known = _placed(replace(finding, pattern=told.rule), told)
    if new and find(told.rule).keeps_range and finding.rule in _IMPRECISE:  # it is no cure
        return known if finding.edits else replace(known, help=told.help)
    # A correction of the run's own stays: it is proved for the rule as it is, and says where it is to be written.
    if not new or (finding.edits and not _is_mended_at_its_cause(finding, told)):
        return known
    return replace(known, fix=told.fix, edits=new, fix_is_safe=told.fix_is_safe)


def _placed(finding: Finding, told: Finding) -> Finding:
    """The finding at the expression, with its help, where the run itself knew no better place than the definition."""
    if finding.cause is not None or finding.line != finding.gradient_line:
        return finding
    return replace(
        finding, line=told.line, column=told.column, end_line=told.end_line,
        end_column=told.end_column, help=told.help,
    )  # fmt: skip


def _is_mended_at_its_cause(finding: Finding, told: Finding) -> bool:
    """Does the linter's repair change the line that the fault comes from, and that of the run only what is computed from it?

    A rule that takes its residuals from an unstable function is right as it stands.
    """
    line = finding.cause.line if finding.cause is not None else None
    at_cause = line is not None and _changes(told, line) and not _changes(finding, line)
    return at_cause and (told.fix_is_safe or not finding.fix_is_safe)


def _changes(finding: Finding, line: int) -> bool:
    return any(edit.line <= line <= edit.end_line for edit in finding.edits)


def _has_shown_nothing(gradient: Gradient) -> bool:
    """Were value and gradient looked at in floats, and is nothing amiss?"""
    if gradient.status is not Status.CHECKED:
        return False
    if gradient.verdict not in (Verdict.CORRECT, Verdict.INTENDED):
        return False
    held = {law.law for law in gradient.laws if law.outcome is Outcome.PASS}
    return held >= _OF_FLOATS
