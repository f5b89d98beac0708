"""The plots of a gradient: along the argument of each fault of its floats, and along every other one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Boundary, Finding, Plot, Values, WitnessInput
from gradcheck_cli.contract.worker import Phase
from gradcheck_cli.judge.plot import can_be_drawn, plot_of
from gradcheck_cli.judge.witness import as_number, call_inputs
from gradcheck_cli.measure.components import columns
from gradcheck_cli.measure.engine import moved
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.ordinary import ordinary_first
from gradcheck_cli.project.rule_pages import find

_MOST = 6  # plots of a gradient
_FIXED = "fixed"


def plots(request: Request, outcome: GradientOutcome) -> list[Plot]:
    """What a format can draw of a gradient; nothing where a row is dear."""
    request.progress.doing(Phase.DRAWING)
    here = [trial.m for trial in outcome.trials if can_be_drawn(trial.m)]
    drawn = list(itertools.islice(_at_faults(outcome.findings, here), _MOST))
    arguments = {plot.argument for plot in drawn}
    others = (plot for plot in _elsewhere(here) if plot.argument not in arguments)
    return [*drawn, *itertools.islice(others, _MOST - len(drawn))]


def _at_faults(findings: Sequence[Finding], here: Sequence[Measurements]) -> Iterator[Plot]:
    """Along the argument over which a fault of floats was followed, the others as in its witness."""
    followed = [f for f in findings if find(f.rule).about_floats and f.boundary and f.witness]
    shown: set[str] = set()
    for finding in followed:
        if finding.fingerprint in shown:
            continue
        there = next(filter(None, (_at_witness(finding, m) for m in here)), None)
        plot = None if there is None else _along(there, finding.boundary)
        if plot is not None:
            line = [f.fingerprint for f in followed if _line_of(f) == _line_of(finding)]
            shown.update(line)
            yield msgspec.structs.replace(plot, shows=line)


def _line_of(finding: Finding) -> tuple[object, ...]:
    """What stays along the line of a finding: the argument's place, all other numbers, the cotangent, the dtype."""
    witness, bound = finding.witness, finding.boundary[0]
    assert witness is not None
    held = [
        _without(item, bound) if item.path == bound.argument else item for item in witness.inputs
    ]
    lone = len(held) == 1 and not bound.index  # whatever the cotangent is, the line is the same
    return bound.argument, bound.index, held, None if lone else witness.cotangent, finding.dtypes


def _without(item: WitnessInput, bound: Boundary) -> WitnessInput:
    """An argument without the element that moves."""
    if not bound.index or not isinstance(item.value, list):
        return msgspec.structs.replace(item, value=None)
    values = list(item.value)
    del values[int(np.ravel_multi_index(bound.index, item.shape))]
    return msgspec.structs.replace(item, value=values)


def _along(m: Measurements, bounds: Sequence[Boundary]) -> Plot | None:
    """The plot in which these intervals lie, with both sides of their ends."""
    leaf = [leaf.path for leaf in m.subject.leaves].index(bounds[0].argument)
    shape = m.subject.leaves[leaf].shape
    element = int(np.ravel_multi_index(bounds[0].index, shape)) if shape else 0
    ends = np.array([float(end) for b in bounds for end in (b.start, b.stop)])
    also = np.concatenate([m.fmt.moved(ends, step) for step in (-1, 0, 1)])
    return plot_of(m, 0, leaf, element, also.tolist())


def _at_witness(finding: Finding, m: Measurements) -> Measurements | None:
    """The probe of a finding's witness, if it is one of this subject."""
    witness = finding.witness
    assert witness is not None
    if not len(m.base_rows):
        return None
    row = int(m.base_rows[0])
    here = call_inputs(m.subject, [p[row] for p in m.points])
    given = [item for item in witness.inputs if item.dtype != _FIXED]
    same = list(map(_kind, witness.inputs)) == list(map(_kind, here))
    if not same or finding.dtypes != [m.subject.dtype] or any(i.value is None for i in given):
        return None
    point = [np.reshape(np.asarray(i.value, np.float64), i.shape) for i in given]
    return moved(m, _row_with(witness.cotangent, m), point)


def _kind(item: WitnessInput) -> tuple[object, ...]:
    """What is the same of an input wherever a subject is tried."""
    fixed = item.dtype == _FIXED
    return item.path, item.dtype, item.shape, item.recipe if fixed else None


def _row_with(cotangent: Values | None, m: Measurements) -> int:
    """A row at this cotangent; the first one where it is not known."""
    wanted = cotangent if isinstance(cotangent, list) else [cotangent]
    for row, numbers in enumerate(columns(m.cotangents, m.count).tolist()):
        if [as_number(number, m.fmt) for number in numbers] == wanted:
            return row
    return int(m.base_rows[0])


def _elsewhere(here: Sequence[Measurements]) -> Iterator[Plot]:
    """Along the first element of every argument, the others at ordinary numbers."""
    chosen = min((m for m in here if len(m.base_rows)), key=_size, default=None)
    if chosen is None:
        return
    row = int(ordinary_first(chosen, chosen.base_rows)[0])
    for leaf, spec in enumerate(chosen.subject.leaves):
        plot = plot_of(chosen, row, leaf, 0) if spec.size else None
        if plot is not None:
            yield plot


def _size(m: Measurements) -> tuple[bool, int]:
    """The fewest elements first; an array of one element says less than a single number, or two."""
    leaves = m.subject.leaves
    lone = any(leaf.shape and leaf.size < len(leaf.shape) + 1 for leaf in leaves)
    return lone, sum(leaf.size for leaf in leaves)
