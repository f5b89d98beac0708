"""Custom gradients of a file that nothing was checked of: its worker died, could not import it, or was stopped."""

from __future__ import annotations

from gradcheck_cli.contract.report import Finding, NotCovered
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.run.exit_code import could_not
from gradcheck_cli.run.target_file import File

_DIED, _NOT_IMPORTED = "its worker died before it was done", "its file could not be imported"
_STOPPED = "the run was interrupted before it was done"


def left_behind(file: File) -> list[NotCovered]:
    """The gradients that the source shows and no worker came to; where some were asked for by name, only those."""
    if not (file.deaths or file.stopped or any(map(_is_missing, file.findings))):
        return []
    done = {checked.gradient.name for checked in file.gradients}
    done |= {_last(item.gradient) for item in file.not_covered}
    of_all = [task for task in file.tasks if not task.functions]
    marked = (marks for task in of_all for marks in task.marked.values())
    names = [mark.name for marks in marked for mark in marks]
    names += [name for name in map(_last, file.deaths) if name and name not in names]
    reason = _DIED if file.deaths else _STOPPED if file.stopped else _NOT_IMPORTED
    return [NotCovered.whole(name, reason) for name in names if name not in done]


def _is_missing(finding: Finding) -> bool:
    """Was the file never imported, be it for want of a package that is optional?"""
    return could_not(finding) or finding.rule == RuleName.IMPORT_FAILED


def _last(qualname: str) -> str:
    return qualname.rpartition(".")[2]
