"""Rules of which only the text is looked at."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any

from gradcheck_cli.inputs.signature import Parameter
from gradcheck_cli.judge.repair.divisors import Divisor
from gradcheck_cli.judge.repair.edits import Edit, additions, edits
from gradcheck_cli.judge.source.rule_text import Function


def module_of(folder: Path, source: str) -> Any:
    """The module that a source is, from a file of its own."""
    path = folder / "written.py"
    path.write_text(source, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"written_{folder.name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def every_edit(function: Function, missing: Divisor | None = None) -> list[Edit]:
    """What undoes a fault, then what adds something."""
    return [*edits(function, missing), *additions(function)]


@dataclass
class Rule:
    """A custom gradient whose rule is written in these functions."""

    code: list[FunctionType]
    names: tuple[str, ...] = ("x", "w", "axis")
    kind: str = "custom_vjp"

    def rule_code(self) -> list[FunctionType]:
        return self.code

    def parameters(self) -> list[Parameter]:
        return [Parameter(n, i, n != "axis", False) for i, n in enumerate(self.names)]
