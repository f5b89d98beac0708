"""The simplest point at which a failure still shows: as many plain numbers as it allows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.inputs.ends import is_in_order
from gradcheck_cli.inputs.simplify import simplest
from gradcheck_cli.measure.engine import moved
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.subject.refusals import Rejected


def simplified(failure: Failure, m: Measurements) -> tuple[Failure, Measurements]:
    """An error of arrays, with measurements at its simplest point; any other failure as it is."""
    holds = failure.as_grave or failure.holds
    if failure.severity is not Severity.ERROR or holds is None:
        return failure, m

    domains = [leaf.domain for leaf in m.subject.leaves]
    if any(domain is not None and domain.joint for domain in domains):
        return failure, m

    def still_holds(point: list[Any]) -> bool:
        pairs = zip(domains, point, strict=True)
        if any(domain is not None and not domain.has(p, m.fmt) for domain, p in pairs):
            return False
        if not is_in_order(m.subject.leaves, point, m.fmt):
            return False
        try:
            return bool(holds(moved(m, failure.row, point))[0])
        except Rejected:  # it raises there
            return False

    point = simplest([p[failure.row] for p in m.points], still_holds)
    if point is None:
        return failure, m
    return replace(failure, row=0), moved(m, failure.row, point)
