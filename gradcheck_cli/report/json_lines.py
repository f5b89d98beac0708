"""JSON, one object a line: file by file the gradients, the findings and what was not covered, and the summary at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from gradcheck_cli.contract.report import Finding, Gradient, NotCovered, Report, Suppressed
from gradcheck_cli.report.json_text import in_one_line
from gradcheck_cli.report.look import Look

_Items = dict[str, list[dict[str, Any]]]  # by file


def render(report: Report, look: Look) -> str:
    """Each line says by `type` what it is; its other fields are those of the JSON report."""
    lines = begin(look, report.summary.files)
    return lines.add(report) + lines.end(report)


def begin(look: Look, files: int) -> Lines:
    """The lines of a run, while its files are added."""
    return Lines()


@dataclass(slots=True)
class Lines:
    """Gradients and findings name each other by `number`, over all files that were added."""

    _gradients: int = 0
    _findings: int = 0

    def add(self, report: Report) -> str:
        """What there is of these files."""
        items: _Items = {}
        for number, gradient in enumerate(report.gradients):
            self._put(items, gradient.path, self._gradient(gradient, number))
        for number, finding in enumerate(report.findings):
            owner = finding.gradient_index
            path = finding.path if owner is None else report.gradients[owner].path
            self._put(items, path, self._finding(finding, number))
        for left in report.not_covered:
            self._put(items, left.path or "", _not_covered(left))
        for quiet in report.suppressed:
            self._put(items, quiet.path, _suppressed(quiet))
        self._gradients += len(report.gradients)
        self._findings += len(report.findings)
        return "".join(in_one_line(item) for path in sorted(items) for item in items[path])

    def end(self, report: Report) -> str:
        """The summary of all files."""
        summary = {
            "type": "summary",
            "schema_version": report.schema_version,
            "tool": msgspec.to_builtins(report.tool),
            **msgspec.to_builtins(report.summary),
        }
        return in_one_line(summary)

    def _put(self, items: _Items, path: str, item: dict[str, Any]) -> None:
        items.setdefault(path, []).append(item)

    def _gradient(self, gradient: Gradient, number: int) -> dict[str, Any]:
        fields = msgspec.to_builtins(gradient)
        fields["findings"] = [self._findings + each for each in gradient.findings]
        return {"type": "gradient", "number": self._gradients + number, **fields}

    def _finding(self, finding: Finding, number: int) -> dict[str, Any]:
        fields = msgspec.to_builtins(finding)
        if finding.gradient_index is not None:
            fields["gradient_index"] = self._gradients + finding.gradient_index
        return {"type": "finding", "number": self._findings + number, **fields}


def _not_covered(item: NotCovered) -> dict[str, Any]:
    return {"type": "not-covered", **msgspec.to_builtins(item)}


def _suppressed(item: Suppressed) -> dict[str, Any]:
    return {"type": "suppressed", **msgspec.to_builtins(item)}
