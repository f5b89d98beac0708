"""The module of a task: imported, or the reason why it cannot be; and what it turns out to define."""

from __future__ import annotations

import ast
from pathlib import Path
from types import ModuleType

import msgspec

from gradcheck_cli.check.import_line import Tell, told_meanwhile
from gradcheck_cli.check.missing_module import is_optional, missing
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import FileFinding, Task
from gradcheck_cli.discover import importing, lines
from gradcheck_cli.project.framework_marks import DEFAULT, NAMES
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.source_marks import by_framework, find_marks, imported_roots


def imported(task: Task, tell: Tell) -> ModuleType | FileFinding:
    """The module in which the task's functions are defined, or what importing it raised; how far it is, is told."""
    rule, severity = RuleName.IMPORT_FAILED, Severity.ERROR
    try:
        if task.path and not task.module:
            with told_meanwhile(task.path, tell):
                return importing.import_file(Path(task.path))
        module = importing.import_module(task.module or "")
        return importing.home(module, task.functions) if task.functions else module
    except SystemExit as error:
        rule, line = RuleName.MODULE_EXITED, lines.raised_at(error, task.path)
        message = f"the module calls sys.exit({error.code!r}) while it is imported"
    except ModuleNotFoundError as error:
        line = lines.raised_at(error, task.path)
        message = missing(error.name or "", task) or f"importing it raised {error!s:.300}"
        if is_optional(error.name or "", task):
            severity = Severity.NOTE
    except BaseException as error:
        line = lines.raised_at(error, task.path)
        message = f"importing it raised {type(error).__name__}: {str(error)[:300]}"
    finding = find(rule).finding(task.display, line, message)
    return FileFinding(finding=msgspec.structs.replace(finding, severity=severity))


def completed(task: Task, module: ModuleType) -> Task:
    """The task with its frameworks: what an installed module defines is known only once it is imported."""
    if task.path and task.marked:
        return task
    try:
        path = Path(module.__file__ or "")
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return msgspec.structs.replace(task, marked=task.marked or {DEFAULT: []})
    marked = by_framework(find_marks(tree, path))
    if task.functions or not marked:
        # A plain function belongs to the framework that its module imports.
        used = NAMES & (imported_roots(tree) | {module.__name__.partition(".")[0]})
        marked = marked or {name: [] for name in sorted(used) or [DEFAULT]}
    return msgspec.structs.replace(task, marked=marked)
