"""From a failure to a finding: witness, boundary, words with numbers, the command that reproduces it.

Long because a finding has many parts; each is a few small functions, and nothing else makes one.
"""

from __future__ import annotations

import shlex
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from gradcheck_cli.contract.report import Boundary, Cause, Finding, Profile, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.discover import lines
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.inputs.simplify import simplest
from gradcheck_cli.judge.diagnose.blame import find_blame
from gradcheck_cli.judge.diagnose.replacement import find_replacement
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.witness import as_number, correct_bits, witness_of
from gradcheck_cli.measure.accuracy import GRADIENTS, VALUES, columns
from gradcheck_cli.measure.boundary import Interval, find_boundaries
from gradcheck_cli.measure.engine import Measurements, moved
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.states import LIMIT, REGULAR
from gradcheck_cli.project.rule_pages import Rule, find
from gradcheck_cli.subject.protocol import CustomGradient, Shaped
from gradcheck_cli.subject.refusals import RuleError

_MOST_TYPED = 8  # numbers in a command that one can still read

_MOST_ARGUMENTS = 3


@dataclass(frozen=True, slots=True)
class Made:
    """A finding, and what it was made from in the end."""

    finding: Finding
    failure: Failure
    measurements: Measurements


def make_finding(failure: Failure, m: Measurements, gradient: CustomGradient, site: Site) -> Made:
    rule = find(failure.rule)
    fix = _fix(failure, m) if rule.about_floats else None  # verified at all points
    intervals: list[Interval] = []
    if not m.dear:
        failure, m = _simplified(failure, m)
        intervals = _boundary(failure, m)
    number, _ = component_name(m, failure.what, failure.component)
    told = _told(rule, failure.severity, _message(failure, m, intervals), gradient, site)
    finding = msgspec.structs.replace(
        told,
        help=failure.help or rule.help,
        modes=list(failure.modes),
        dtypes=[m.subject.dtype],
        witness=None if failure.everywhere and not rule.witness else witness_of(failure, m),
        boundary=[_as_boundary(i, m) for i in intervals],
        profile=_profile(failure, m),
        cause=_cause(failure, m, site) if rule.about_floats and not m.dear else None,
        fix=fix,
        expect=failure.expect,
        fingerprint=fingerprint(rule.name, site, failure.cause, number),
        reproduce=_reproduce(failure, m, site),
    )
    return Made(finding, failure, m)


def refused(
    gradient: CustomGradient,
    site: Site,
    signature: Signature,
    error: RuleError,
    severity: Severity,
    dtype: str,
) -> Finding:
    """The framework refused the rule at a signature that the function takes."""
    where = signature.describe()
    rule = find(RuleName.GRADIENT_STRUCTURE)
    raised = (
        error.message if error.silent else f"the function runs and its rule raises {error.message}"
    )
    message = f"at {where}, {raised}"
    note = severity is Severity.NOTE
    if note:
        message = f"the function takes {where}, its rule does not"
    return msgspec.structs.replace(
        _told(rule, severity, message, gradient, site),
        help=error.message if note else rule.help,
        dtypes=[dtype],
        fingerprint=fingerprint(rule.name, site, error.stage, 0),
        reproduce=f"cgcheck {shlex.quote(_target(site))}",
    )


def failed(gradient: CustomGradient, site: Site, subject: Shaped, error: Exception) -> Finding:
    """A bug of ours at one signature: told, and what the others found stands."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = (
        f"at {subject.signature.describe()}, cgcheck itself failed: {type(error).__name__}: "
        f"{error} ({Path(last.filename).name}:{last.lineno})"
    )
    rule = find(RuleName.INTERNAL_ERROR)
    return _told(rule, rule.severity, message, gradient, site)


def _told(
    rule: Rule, severity: Severity, message: str, gradient: CustomGradient, site: Site
) -> Finding:
    """What every finding about a gradient says."""
    return msgspec.structs.replace(
        rule.finding(site.path, site.line, message, about=gradient.place.qualname),
        severity=severity,
        column=site.column,
        end_line=site.line,
        end_column=site.end_column,
        gradient=gradient.place.qualname,
        backends=[gradient.backend],
    )


def _simplified(failure: Failure, m: Measurements) -> tuple[Failure, Measurements]:
    """Errors of arrays get the simplest witness that shows the same."""
    holds = failure.as_grave or failure.holds
    if failure.severity is not Severity.ERROR or holds is None:
        return failure, m

    domains = [leaf.domain for leaf in m.subject.leaves]
    if any(domain is not None and domain.joint for domain in domains):
        return failure, m

    def still(point: list[Any]) -> bool:
        pairs = zip(domains, point, strict=True)
        if any(domain is not None and not domain.has(p, m.fmt) for domain, p in pairs):
            return False
        return bool(holds(moved(m, failure.row, point))[0])

    point = simplest([p[failure.row] for p in m.points], still)
    if point is None:
        return failure, m
    return replace(failure, row=0), moved(m, failure.row, point)


# -- words -----------------------------------------------------------------------------


def _message(failure: Failure, m: Measurements, intervals: Sequence[Interval]) -> str:
    where = " and ".join(_range_text(i, m) for i in intervals)
    return f"{failure.message}, {where}" if where else failure.message


def _range_text(interval: Interval, m: Measurements) -> str:
    name = argument_name(m, interval.leaf, interval.element)
    start, stop = m.fmt.show(interval.start), m.fmt.show(interval.stop)
    if max(abs(interval.start), abs(interval.stop)) <= m.fmt.tiny:
        return f"at {name} = 0"
    if 0 < interval.start <= m.fmt.tiny:
        return f"for {name} > 0" if interval.stop_open else f"for 0 < {name} ≤ {stop}"
    if -m.fmt.tiny <= interval.stop < 0:
        return f"for {name} < 0" if interval.start_open else f"for {start} ≤ {name} < 0"
    if interval.start_open and interval.stop_open:
        return f"for every {name} that was tried"
    if interval.start_open:
        return f"for {name} ≤ {stop}"
    if interval.stop_open:
        return f"for {name} ≥ {start}"
    return f"at {name} = {start}" if start == stop else f"for {start} ≤ {name} ≤ {stop}"


def argument_name(m: Measurements, leaf: int, element: int) -> str:
    """`x`, or `x[2, 0]` for an element of an array."""
    spec = m.subject.leaves[leaf]
    if not spec.shape:
        return spec.path
    index = ", ".join(str(int(i)) for i in np.unravel_index(element, spec.shape))
    return f"{spec.path}[{index}]"


def _reproduce(failure: Failure, m: Measurements, site: Site) -> str:
    leaves = m.subject.leaves
    command = f"cgcheck {shlex.quote(_target(site))}"
    if sum(leaf.size for leaf in leaves) <= _MOST_TYPED:
        values = ", ".join(
            f"{leaf.path}={_typed(p[failure.row], m.fmt)}"
            for leaf, p in zip(leaves, m.points, strict=True)
        )
        command += f' --at "{values}"'
    return command if m.subject.dtype == "float32" else f"{command} --dtype {m.subject.dtype}"


def _target(site: Site) -> str:
    outer = site.qualname.partition(".<locals>")[0]  # its name stands for what is made in it
    return site.target if "<" in outer else f"{site.target}:{outer}"


def _typed(array: Any, fmt: Format) -> str:
    """As `--at` reads it."""
    shown = [fmt.show(float(v)) for v in np.asarray(array).reshape(-1)]
    return f"[{', '.join(shown)}]" if np.ndim(array) else shown[0]


def _boundary(failure: Failure, m: Measurements) -> list[Interval]:
    """Along the argument of the failing component; along others if it holds all over that one."""
    if failure.holds is None or failure.everywhere:
        return []
    if failure.severity is Severity.NOTE and any(leaf.shape for leaf in m.subject.leaves):
        return []  # dozens of walks over whole arrays, for a line that is folded away
    spread = np.unique(np.concatenate([p.reshape(-1) for p in m.spread]))
    spread = spread[:: max(1, len(spread) // 256)]
    leaf, element = _argument(failure, m)
    others = [
        (i, element) for i, p in enumerate(m.subject.leaves) if i != leaf and element < p.size
    ]
    for argument in [(leaf, element), *others][:_MOST_ARGUMENTS]:
        domain = m.subject.leaves[argument[0]].domain
        if domain is not None and domain.joint:
            continue  # one element alone leaves it
        values = spread if domain is None else np.unique(domain.into(spread, m.fmt))
        found = find_boundaries(m, failure.row, *argument, values, failure.holds)
        if not found:
            return []
        if len(found) > 1 or not (found[0].start_open and found[0].stop_open):
            return found
    return []


def _argument(failure: Failure, m: Measurements) -> tuple[int, int]:
    if failure.what == GRADIENTS:
        number, index = component_name(m, GRADIENTS, failure.component)
        shape = m.subject.leaves[number].shape
        return number, int(np.ravel_multi_index(index, shape)) if shape else 0
    sizes = [float(np.abs(p[failure.row]).max(initial=0)) for p in m.points]
    leaf = int(np.argmax(sizes))
    flat = np.abs(m.points[leaf][failure.row].reshape(-1))
    return leaf, int(flat.argmax()) if flat.size else 0


def _as_boundary(interval: Interval, m: Measurements) -> Boundary:
    shape = m.subject.leaves[interval.leaf].shape
    index = [int(i) for i in np.unravel_index(interval.element, shape)] if shape else []
    return Boundary(
        argument=m.subject.leaves[interval.leaf].path,
        index=index,
        start=as_number(interval.start, m.fmt),
        stop=as_number(interval.stop, m.fmt),
        from_open=interval.start_open,
        to_open=interval.stop_open,
    )


def _profile(failure: Failure, m: Measurements) -> Profile | None:
    """Correct bits over a single scalar argument."""
    leaves = m.subject.leaves
    if (
        not find(failure.rule).about_floats
        or len(leaves) != 1
        or leaves[0].shape
        or failure.component
    ):
        return None
    floats = m.floats[failure.modes[0] if failure.modes else m.mode]
    arrays = floats.rule_value if failure.what == VALUES else (floats.custom or floats.auto or [])
    rows = m.base_rows
    rows = rows[np.argsort(m.points[0][rows], kind="stable")]
    rows = rows[np.isin(m.reference.states(failure.what)[rows, 0], (REGULAR, LIMIT))]
    truth = m.reference.middle(failure.what)[rows, 0]
    bits = correct_bits(columns(arrays, m.count)[rows, 0], truth, m)
    flushed = (np.abs(truth) < m.fmt.tiny) | (np.abs(truth) > m.fmt.max)
    bits = np.where(flushed, float(m.fmt.digits), bits)
    return Profile(
        argument=leaves[0].path,
        at=[as_number(float(v), m.fmt) for v in m.points[0][rows]],
        bits=[round(float(b), 1) for b in bits],
        full=float(m.fmt.digits),
    )


def _cause(failure: Failure, m: Measurements, site: Site) -> Cause | None:
    """The operation that loses the digits, with its line."""
    found = find_blame(failure, m)
    if found is None:
        return None
    at = found.spot
    return Cause(
        path=None if at is None else lines.shown(at.path, site.root),
        line=None if at is None else at.line,
        column=None if at is None else at.column,
        expression=None if at is None else at.text,
        text=found.text,
    )


def _fix(failure: Failure, m: Measurements) -> str | None:
    """Library code that equals the primal (or its derivative) and is good at the witness."""
    return find_replacement(m, failure.row, failure.what)
