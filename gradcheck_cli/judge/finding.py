"""From a failure to a finding: its parts are made by the files beside this one and put together here."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.judge.boundary import as_boundary, boundaries, held, in_words
from gradcheck_cli.judge.explanation import explained, fix_of
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.outline import outline
from gradcheck_cli.judge.profile import profile_of
from gradcheck_cli.judge.reproduce import reproducing
from gradcheck_cli.judge.simplest import simplified
from gradcheck_cli.judge.witness import witness_of
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.protocol import CustomGradient


@dataclass(frozen=True, slots=True)
class GroundedFinding:
    """A finding with its grounds: the failure, and the measurements at its simplest point."""

    finding: Finding
    failure: Failure
    measurements: Measurements


def make_finding(
    failure: Failure, m: Measurements, gradient: CustomGradient, site: Site
) -> GroundedFinding:
    """The finding of a failure, with all that explains it; where rows are dear, with what is cheap."""
    # Verified at all points, so before there is only the simplest one.
    fix = fix_of(failure, m, gradient)
    dear = m.dear
    if not dear:
        failure, m = simplified(failure, m)
    intervals = [] if dear else boundaries(failure, m)
    number, _ = component_name(m, failure.what, failure.component)
    where = " and ".join(in_words(interval, m) for interval in intervals) + held(intervals, m, failure.row)  # fmt: skip
    message = f"{failure.message}, {where}" if where else failure.message
    finding = msgspec.structs.replace(
        outline(failure.rule, failure.severity, message, gradient, site, help=failure.help),
        modes=list(failure.modes),
        dtypes=[m.subject.dtype],
        witness=witness_of(failure, m),
        boundary=[as_boundary(interval, m) for interval in intervals],
        profile=profile_of(failure, m),
        expect=failure.expect,
        trusts=list(failure.trusts),
        fingerprint=fingerprint(failure.rule, site, failure.ground.text, number),
        reproduce=reproducing(failure, m, site),
    )
    return GroundedFinding(explained(finding, fix, failure, m, gradient, site), failure, m)
