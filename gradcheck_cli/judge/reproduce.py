"""The command that shows a finding again, at its own numbers."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.floats import Format
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.files import named

_MOST_TYPED = 8  # numbers in a command that one can still read


def reproducing(failure: Failure, m: Measurements, site: Site) -> str:
    """As in `cgcheck model.py:loss --at "x=100"`; without the numbers, if they are too many."""
    leaves = m.subject.leaves
    command = checking(site)
    if sum(leaf.size for leaf in leaves) <= _MOST_TYPED:
        values = ", ".join(
            f"{leaf.path}={_typed(p[failure.row], m.fmt)}"
            for leaf, p in zip(leaves, m.points, strict=True)
        )
        command += f' --at "{values}"'
    if failure.rule == RuleName.WRONG_SECOND_DERIVATIVE and failure.severity is Severity.ERROR:
        command += " --order 2"
    return command if m.subject.dtype == "float32" else f"{command} --dtype {m.subject.dtype}"


def checking(site: Site) -> str:
    """As in `cgcheck model.py:loss`: the command that checks one gradient."""
    return f"cgcheck {shlex.quote(named(site.target, site.qualname))}"


def _typed(array: Any, fmt: Format) -> str:
    """Numbers as `--at` reads them."""
    shown = [fmt.show(float(v)) for v in np.asarray(array).reshape(-1)]
    return f"[{', '.join(shown)}]" if np.ndim(array) else shown[0]
