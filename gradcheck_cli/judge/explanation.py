"""What explains a failure of the floats: the operation that loses the digits, and what keeps them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gradcheck_cli.contract.report import Cause, Edit, Finding
from gradcheck_cli.discover import lines
from gradcheck_cli.judge.diagnose.blame import find_blame
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.judge.place import placed
from gradcheck_cli.judge.repair.replacement import find_replacement
from gradcheck_cli.judge.repair.transplant import transplanted
from gradcheck_cli.measure.components import VALUES
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import CustomGradient

_LEAVES_THE_RANGE = re.compile(r"\b(?:over|under)flows\b")
_SCALE = "scale what is squared, multiplied or exponentiated, so that nothing in between leaves the range of the dtype"


@dataclass(frozen=True, slots=True)
class Fix:
    """What to write, and where, if the rule's text shows it."""

    text: str
    edits: Sequence[Edit] = ()


def explained(
    finding: Finding,
    fix: Fix | None,
    failure: Failure,
    m: Measurements,
    gradient: CustomGradient,
    site: Site,
) -> Finding:
    """The finding with its cause and what to write, at the expression that it comes from."""
    cause = cause_of(failure, m, site)
    known = replace(finding, cause=cause)
    if cause is not None and _LEAVES_THE_RANGE.search(cause.text):
        known = replace(known, help=_SCALE)
    if fix is not None:
        known = replace(known, fix=fix.text, edits=list(fix.edits), fix_is_safe=bool(fix.edits))
    return placed(known, failure, m, gradient)


def cause_of(failure: Failure, m: Measurements, site: Site) -> Cause | None:
    """The operation that loses the digits, with its line."""
    if not find(failure.rule).about_floats or m.dear:
        return None
    blame = find_blame(failure, m)
    if blame is None:
        return None
    spot = blame.spot
    return Cause(
        path=None if spot is None else lines.shown(spot.path, site.root),
        line=None if spot is None else spot.line,
        column=None if spot is None else spot.column,
        end_line=None if spot is None else spot.end_line,
        end_column=None if spot is None else spot.end_column,
        expression=None if spot is None else spot.text,
        text=blame.text,
    )


def fix_of(failure: Failure, m: Measurements, gradient: CustomGradient) -> Fix | None:
    """Library code that equals the primal (or its derivative) at all points and is good at this one."""
    if not find(failure.rule).about_floats:
        return None
    function = find_replacement(m, failure.row, failure.what)
    if function is None:
        return None
    if failure.what == VALUES:
        return Fix(function.value)
    planted = transplanted(gradient, function)
    return Fix(function.gradient) if planted is None else Fix(planted.text, planted.edits)
