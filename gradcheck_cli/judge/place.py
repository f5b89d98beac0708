"""Where a finding stands: at the expression that it comes from, if the gradient's own file has it."""

from __future__ import annotations

from pathlib import Path

from msgspec.structs import replace

from gradcheck_cli.contract.report import Edit, Finding, Severity
from gradcheck_cli.judge.source.returned import returned_for
from gradcheck_cli.judge.source.span import Span
from gradcheck_cli.judge.source.traced_lines import traced_lines
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.protocol import CustomGradient


def placed(
    finding: Finding, failure: Failure, m: Measurements, gradient: CustomGradient
) -> Finding:
    """The finding at what loses the digits; or at what the rule returns for the argument."""
    cause = finding.cause
    if cause is not None and cause.path == finding.path and cause.line is not None:
        return replace(
            finding,
            line=cause.line,
            column=cause.column or 1,
            end_line=cause.end_line,
            end_column=cause.end_column,
        )
    argument = None if finding.witness is None else finding.witness.argument
    is_note = finding.severity is Severity.NOTE
    if failure.what != GRADIENTS or is_note:
        return finding
    returned = returned_for(gradient, argument, traced_lines(m.subject))
    if returned is None or not is_of(returned.path, gradient):
        return finding
    return at(finding, returned.span)


def at(finding: Finding, place: Span | Edit) -> Finding:
    """The finding at another place of its file."""
    return replace(
        finding,
        line=place.line,
        column=place.column,
        end_line=place.end_line,
        end_column=place.end_column,
    )


def is_of(path: str, gradient: CustomGradient) -> bool:
    """Is it the file in which the gradient is defined?"""
    return Path(path).resolve() == Path(gradient.place.path).resolve()
