"""SARIF 2.1.0, which code scanning reads: rules with their pages, results with places, repairs and fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gradcheck_cli.contract.report import Edit, Finding, Report, Severity, Suppressed, Suppressor
from gradcheck_cli.project.rule_pages import Rule, rules
from gradcheck_cli.report.json_text import indented
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import advice, headline, one_line, plain, unchecked

_SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
_HOME = "https://pypi.org/project/cgcheck/"
_FINGERPRINT = "cgcheck/v1"
_ROOT = "SRCROOT"
_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.NOTE: "note"}


def render(report: Report, look: Look) -> str:
    """One run; what a user or the run itself says is none is a suppressed result, with the reason."""
    quiet = [item.finding for item in report.suppressed]
    used = sorted({f.rule for f in [*report.findings, *quiet]})
    places = {name: index for index, name in enumerate(used)}
    log = {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": _driver(report, used)},
                "columnKind": "unicodeCodePoints",
                "originalUriBaseIds": {_ROOT: {"description": {"text": "where cgcheck was started"}}},
                "invocations": [_invocation(report)],
                "results": [
                    *(_result(f, places[f.rule]) for f in report.findings),
                    *(_suppressed(item, places[item.finding.rule]) for item in report.suppressed),
                ],
            }
        ],
    }  # fmt: skip
    return indented(log)


def _driver(report: Report, used: Sequence[str]) -> dict[str, Any]:
    pages = rules()
    return {
        "name": report.tool.name,
        "semanticVersion": report.tool.version,
        "informationUri": _HOME,
        "rules": [_rule(pages[name]) for name in used],
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return {
        "id": rule.code,
        "name": "".join(part.capitalize() for part in rule.name.split("-")),
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": rule.summary},
        "help": {"text": rule.help, "markdown": rule.body},
        "defaultConfiguration": {"level": _LEVELS[rule.severity]},
        "properties": {"tags": [rule.family], "cgcheck/name": rule.name},
    }


def _invocation(report: Report) -> dict[str, Any]:
    notes = [
        {
            "level": "warning",
            "message": {"text": one_line(f"could not check {item.gradient}: {item.reason}")},
            "locations": [{"physicalLocation": {**_artifact(path), "region": {"startLine": line}}}],
        }
        for item, path, line in unchecked(report)
    ]
    return {
        "executionSuccessful": report.summary.exit_code < 2,
        "exitCode": report.summary.exit_code,
        "toolExecutionNotifications": notes,
    }


def _result(finding: Finding, index: int) -> dict[str, Any]:
    lines = [headline(finding), advice(finding)]
    lines.append(f"Again: {one_line(finding.reproduce)}" if finding.reproduce else "")
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": index,
        "level": _LEVELS[finding.severity],
        "message": {"text": "\n".join(filter(None, lines))},
        "locations": [_location(finding)],
        "partialFingerprints": {_FINGERPRINT: finding.fingerprint},
    }
    if finding.cause is not None and finding.cause.line is not None:
        result["relatedLocations"] = list(_cause(finding))
    if finding.edits:
        result["fixes"] = [_fix(finding)]
    if finding.withdrawn_by is not None:
        said = f"the run of {one_line(finding.withdrawn_by)} did not show it"
        result["suppressions"] = [{"kind": "external", "justification": said}]
    return result


def _suppressed(item: Suppressed, index: int) -> dict[str, Any]:
    """A result for the record; a reader counts it as closed."""
    comment = item.by is Suppressor.COMMENT
    said: dict[str, Any] = {"kind": "inSource" if comment else "external"}
    if item.reason:
        said["justification"] = one_line(item.reason)
    if item.line is not None:
        region = {"startLine": item.line}
        said["location"] = {"physicalLocation": {**_artifact(item.path), "region": region}}
    return {**_result(item.finding, index), "suppressions": [said]}


def _location(finding: Finding) -> dict[str, Any]:
    region = {"startLine": finding.line, "startColumn": finding.column}
    if finding.end_line is not None and finding.end_column is not None:
        region |= {"endLine": finding.end_line, "endColumn": finding.end_column}
    location: dict[str, Any] = {"physicalLocation": {**_artifact(finding.path), "region": region}}
    if finding.gradient:
        location["logicalLocations"] = [
            {"fullyQualifiedName": plain(finding.gradient), "kind": "function"}
        ]
    return location


def _cause(finding: Finding) -> Iterator[dict[str, Any]]:
    cause = finding.cause
    assert cause is not None
    region = {"startLine": cause.line} | ({"startColumn": cause.column} if cause.column else {})
    yield {
        "physicalLocation": {**_artifact(cause.path or finding.path), "region": region},
        "message": {"text": one_line(f"{cause.expression or ''} {cause.text}")},
    }


def _fix(finding: Finding) -> dict[str, Any]:
    safe = "" if finding.fix_is_safe else " (it may change what is computed)"
    change = {**_artifact(finding.path), "replacements": list(map(_replacement, finding.edits))}
    return {
        "description": {"text": one_line(finding.fix or "repair") + safe},
        "artifactChanges": [change],
    }


def _replacement(edit: Edit) -> dict[str, Any]:
    region = {
        "startLine": edit.line, "startColumn": edit.column,
        "endLine": edit.end_line, "endColumn": edit.end_column,
    }  # fmt: skip
    return {"deletedRegion": region, "insertedContent": {"text": plain(edit.text)}}


def _artifact(path: str) -> dict[str, Any]:
    """The file, as an address that is relative to where cgcheck was started."""
    written = path.encode("utf-8", "replace").decode()
    if Path(written).is_absolute():
        return {"artifactLocation": {"uri": Path(written).as_uri()}}
    uri = quote(Path(written).as_posix())
    return {"artifactLocation": {"uri": uri, "uriBaseId": _ROOT}}
