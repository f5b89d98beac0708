"""What violates a law: a row, a component, and where else the same is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.engine import Measurements
from gradcheck_cli.measure.run_alone import Alone

Array = np.ndarray[Any, Any]

Holds = Callable[[Measurements], Array]


@dataclass(frozen=True, slots=True)
class Failure:
    """One violation at a row, before it becomes a finding.

    `what` and `component` say which number; `cause` groups failures that are
    one; `holds` tells for other measurements whether the same is true there.
    """

    rule: RuleName
    severity: Severity
    row: int
    what: str
    component: int
    cause: str
    message: str
    modes: tuple[str, ...] = ()
    holds: Holds | None = None
    as_grave: Holds | None = None  # the same, and it matters as much: for simpler witnesses
    everywhere: bool = False
    help: str | None = None
    expect: str | None = None  # what declares it, if it was meant
    alone: Alone | None = None  # the run by itself that has confirmed it


def component_name(m: Measurements, what: str, component: int) -> tuple[int, tuple[int, ...]]:
    """Leaf (or output) number and index of a component."""
    for number, (shape, elements) in enumerate(m.components(what)):
        if component < len(elements):
            place = np.unravel_index(elements[component], shape) if shape else ()
            return number, tuple(int(i) for i in place)
        component -= len(elements)
    raise IndexError(component)
