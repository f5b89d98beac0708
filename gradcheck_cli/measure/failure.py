"""What violates a law: a row, a component, on what ground, and where else the same is true."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.measure.run_alone import Alone

Array = np.ndarray[Any, Any]

Holds = Callable[[Measurements], Array]


class Kind(Enum):
    """The fault that a failure is; its text enters the fingerprint of a finding."""

    FORMULA = "formula"  # and the argument, where there are several
    DATA = "data"  # and the argument that is
    FAR = "far"  # and the argument, where what stands for infinity is exceeded, or the bounds of a clip cross
    APPROXIMATE = "approximate"
    SINGULARITY = "singularity"
    SURROGATE = "surrogate"
    PASSED_IN_PART = "passed in part"  # and the argument: straight-through for some elements
    DEVIATION = "deviation"  # and what it does
    INCONCLUSIVE = "inconclusive"
    INNER_RULE = "inner"
    POLE = "pole"
    KINK = "kink"
    VALUE = "value"
    LINEARITY = "linearity"
    STRUCTURE = "structure"
    VALUE_FLOATS = "values"  # and what is wrong with the float
    GRADIENT_FLOATS = "gradients"
    AUTODIFF_FLOATS = "autodiff"
    REDUNDANT = "redundant"
    CASTS = "casts"
    DTYPES = "dtypes"
    CONTEXT = "context:"  # and the rule with the other call
    FORWARD_MODE = "forward mode:"  # and the rule with the other call
    INTENT = "intent"  # and its name
    DOUBT = "doubt about intent"


@dataclass(frozen=True, slots=True)
class Ground:
    """What two failures share if they are one: no numbers and no lines, as those change."""

    kind: Kind
    detail: str | None = None

    @property
    def text(self) -> str:
        return self.kind.value if self.detail is None else f"{self.kind.value} {self.detail}"


@dataclass(frozen=True, slots=True)
class Failure:
    """One violation of a law at a row, before it becomes a finding.

    `what` and `component` say which number; `ground` is the same for
    failures that are one; `holds` tells for other measurements whether the same is true there.
    """

    rule: RuleName
    severity: Severity
    row: int
    what: str
    component: int
    ground: Ground
    message: str
    modes: tuple[str, ...] = ()
    holds: Holds | None = None
    as_grave: Holds | None = None  # where it holds and matters as much: for a simpler witness
    everywhere: bool = False
    help: str | None = None
    expect: str | None = None  # what declares it, if it was meant
    alone: Alone | None = None  # the run by itself that has confirmed it
    trusts: tuple[str, ...] = ()  # inner rules that are taken at their word


def component_name(m: Measurements, what: str, component: int) -> tuple[int, tuple[int, ...]]:
    """Leaf (or output) number and index of a component."""
    for number, (shape, elements) in enumerate(m.components(what)):
        if component < len(elements):
            place = np.unravel_index(elements[component], shape) if shape else ()
            return number, tuple(int(i) for i in place)
        component -= len(elements)
    raise IndexError(component)
