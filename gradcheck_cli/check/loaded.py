"""A gradient that this very process has loaded: no worker, no time limit."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.named import against_references
from gradcheck_cli.check.one_gradient import Emit, check_gradient
from gradcheck_cli.contract.worker import Finished, Task
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.project.framework_marks import DEFAULT
from gradcheck_cli.subject.protocol import CustomGradient, Framework


def check_loaded(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    emit: Emit,
    calls: Sequence[Signature] = (),
) -> None:
    """Check one gradient, as it was called; without a limit, for there is no worker to kill."""
    path = gradient.place.path
    home = next((m for m in list(sys.modules.values()) if _is_from(m, path)), ModuleType(""))
    selection = against_references([gradient], home, task, path)
    for finding in selection.findings:
        emit(finding)
    for each in selection.gradients:
        check_gradient(each, framework, task, path, emit, Clock(None), calls)
    versions = {DEFAULT: load(DEFAULT).version, framework.name: framework.version}
    emit(Finished(versions=versions))


def _is_from(module: ModuleType, path: str) -> bool:
    return getattr(module, "__dict__", {}).get("__file__") == path  # asks no lazy module to load
