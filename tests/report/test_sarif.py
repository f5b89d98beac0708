"""SARIF: what code scanning reads, and nothing that the standard does not know."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import Report, Severity, Suppressed, Suppressor
from gradcheck_cli.project.comments import Ignore
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import render
from gradcheck_cli.report.look import Look
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.report.test_formats import HOSTILE, WRONG, report, unchecked
from tests.reports import checked, finding


def closed(required: dict[str, Any], **optional: Any) -> dict[str, Any]:
    """An object of these members and no others."""
    return {
        "type": "object", "additionalProperties": False,
        "properties": required | optional, "required": list(required),
    }  # fmt: skip


def some(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": item}


def one_of(*values: str) -> dict[str, Any]:
    return {"enum": list(values)}


# What we write, in the standard's names and bounds (SARIF 2.1.0, sections 3.13 to 3.58).
TEXT, NUMBER = {"type": "string"}, {"type": "integer", "minimum": 1}
MESSAGE = closed({"text": TEXT}, markdown=TEXT)
ADDRESS = {"type": "string", "format": "uri-reference", "pattern": r"^[\x21-\x7e]*$"}
REGION = closed({"startLine": NUMBER}, startColumn=NUMBER, endLine=NUMBER, endColumn=NUMBER)
FILE = closed({"uri": ADDRESS}, uriBaseId={"const": "SRCROOT"})
PLACE = closed({"artifactLocation": FILE}, region=REGION)
LOGICAL = closed({"fullyQualifiedName": TEXT, "kind": one_of("function")})
LOCATION = closed({"physicalLocation": PLACE}, logicalLocations=some(LOGICAL), message=MESSAGE)
LEVEL = one_of("none", "note", "warning", "error")
CHANGE = closed(
    {
        "artifactLocation": FILE,
        "replacements": some(closed({"deletedRegion": REGION, "insertedContent": MESSAGE}))
        | {"minItems": 1},
    }
)
SUPPRESSION = closed(
    {"kind": one_of("inSource", "external")},
    justification=TEXT,
    location=LOCATION,
)
RESULT = closed(
    {"ruleId": TEXT, "ruleIndex": {"type": "integer", "minimum": 0}, "level": LEVEL, "message": MESSAGE},
    locations=some(LOCATION),
    relatedLocations=some(LOCATION),
    partialFingerprints={"type": "object", "additionalProperties": TEXT},
    fixes=some(closed({"artifactChanges": some(CHANGE) | {"minItems": 1}}, description=MESSAGE)),
    suppressions=some(SUPPRESSION),
)  # fmt: skip
RULE = closed(
    {"id": TEXT},
    name=TEXT,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    defaultConfiguration=closed({"level": LEVEL}),
    properties={"type": "object", "properties": {"tags": some(TEXT) | {"uniqueItems": True}}},
)
NOTICE = closed({"message": MESSAGE}, level=LEVEL, locations=some(LOCATION))
DRIVER = closed({"name": TEXT}, semanticVersion=TEXT, informationUri=ADDRESS, rules=some(RULE))
RUN = closed(
    {"tool": closed({"driver": DRIVER})},
    columnKind=one_of("utf16CodeUnits", "unicodeCodePoints"),
    originalUriBaseIds={"type": "object", "additionalProperties": closed({"description": MESSAGE})},
    invocations=some(
        closed(
            {"executionSuccessful": {"type": "boolean"}},
            exitCode={"type": "integer"},
            toolExecutionNotifications=some(NOTICE),
        )
    ),
    results=some(RESULT),
)
LOG = closed({"version": {"const": "2.1.0"}, "runs": some(RUN)}, **{"$schema": ADDRESS})


def sarif(of: Report, root: Path) -> dict[str, Any]:
    """The only run of a report, once it is what the standard says."""
    from jsonschema import Draft202012Validator

    log = json.loads(render("sarif", of, Look(root)))
    Draft202012Validator(LOG).validate(log)
    (run,) = log["runs"]
    places = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(places[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    return dict(run)


def quiet(**changes: Any) -> Report:
    """A report without findings, that keeps one for the record."""
    item = Suppressed(
        finding=replace(WRONG, gradient_index=None), by=Suppressor.COMMENT, path="a.py"
    )
    return replace(assemble([], Settings()), suppressed=[replace(item, **changes)])


def with_hostile_names() -> Report:
    names = {"message": HOSTILE, "gradient": HOSTILE, "help": HOSTILE, "path": "a b/ü#.py"}
    return report(replace(WRONG, **names, reproduce=HOSTILE))


@pytest.mark.needs("jsonschema")
@pytest.mark.parametrize("of", [report(WRONG), unchecked(), quiet(), with_hostile_names()])
def test_it_is_what_the_standard_says(of: Report, tmp_path: Path) -> None:
    assert sarif(of, tmp_path)["columnKind"] == "unicodeCodePoints"


@pytest.mark.needs("jsonschema")
def test_what_the_standard_does_not_know_is_seen(tmp_path: Path) -> None:
    from jsonschema import Draft202012Validator

    log = json.loads(render("sarif", report(WRONG), Look(tmp_path)))
    log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"]["startLine"] = 0
    log["runs"][0]["results"][0]["severity"] = "error"
    assert len(list(Draft202012Validator(LOG).iter_errors(log))) == 2


@pytest.mark.needs("jsonschema")
def test_a_result_has_its_place_its_repair_and_the_page_of_its_rule(tmp_path: Path) -> None:
    run = sarif(report(WRONG), tmp_path)
    result = next(r for r in run["results"] if r["level"] == "error")
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "a.py", "uriBaseId": "SRCROOT"}
    assert place["region"] == {"startLine": 3, "startColumn": 5, "endLine": 3, "endColumn": 11}
    (change,) = result["fixes"][0]["artifactChanges"]
    assert change["replacements"][0]["insertedContent"] == {"text": "3 * ct"}
    rule = run["tool"]["driver"]["rules"][result["ruleIndex"]]
    assert (rule["id"], result["ruleId"]) == ("CG101", "CG101")
    assert "## Why is this bad" in rule["help"]["markdown"]
    assert result["partialFingerprints"] == {"cgcheck/v1": "0123456789abcdef"}
    assert run["invocations"][0]["exitCode"] == 1


@pytest.mark.needs("jsonschema")
def test_what_the_run_did_not_confirm_is_suppressed(tmp_path: Path) -> None:
    gone = finding("gradient-mismatch", severity=Severity.NOTE, withdrawn_by="f", message="gone")
    results = sarif(report(gone), tmp_path)["results"]
    kept = next(r for r in results if "gone" in r["message"]["text"])
    assert kept["suppressions"][0]["justification"] == "the run of f did not show it"


@pytest.mark.needs("jsonschema")
def test_what_a_comment_ignores_is_suppressed_with_its_reason(tmp_path: Path) -> None:
    ignores = [Ignore(2, 3, ("gradient-mismatch",), "damps the\nfirst steps")]
    run = sarif(assemble([File("a.py", gradients=[checked(WRONG)], ignores=ignores)], Settings()), tmp_path)  # fmt: skip
    (result,) = run["results"]
    (said,) = result["suppressions"]
    assert (said["kind"], said["justification"]) == ("inSource", "damps the first steps")
    assert said["location"]["physicalLocation"]["region"] == {"startLine": 2}
    assert run["invocations"][0]["exitCode"] == 0


@pytest.mark.needs("jsonschema")
def test_what_settings_and_baselines_hide_is_suppressed_from_outside(tmp_path: Path) -> None:
    of = quiet(by=Suppressor.BASELINE, reason="since spring")
    assert sarif(of, tmp_path)["results"][0]["suppressions"] == [
        {"kind": "external", "justification": "since spring"}
    ]
    hidden = sarif(quiet(by=Suppressor.SETTINGS), tmp_path)["results"][0]["suppressions"]
    assert hidden == [{"kind": "external"}]


@pytest.mark.needs("jsonschema")
def test_names_of_files_are_addresses(tmp_path: Path) -> None:
    run = sarif(report(finding(path="a b/ü#.py")), tmp_path)
    places = [r["locations"][0]["physicalLocation"] for r in run["results"]]
    assert "a%20b/%C3%BC%23.py" in {place["artifactLocation"]["uri"] for place in places}
