"""A JUnit report: a suite a file, a case a gradient; errors are failures, what was not checked is skipped."""

from __future__ import annotations

from collections.abc import Sequence
from xml.etree import ElementTree as ET

from gradcheck_cli.contract.report import Finding, Gradient, Report, Severity, Status
from gradcheck_cli.report.by_file import Section, sections
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.told import advice, headline, plain

_OF_THE_FILE = "the file"  # the case of findings about no gradient


def render(report: Report, look: Look) -> str:
    """Suites in the order of their files."""
    suites = ET.Element("testsuites", name="cgcheck")
    for section in sections(report):
        suites.append(_suite(section, report))
    _count(suites)
    ET.indent(suites)
    text = ET.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'


def _suite(section: Section, report: Report) -> ET.Element:
    suite = ET.Element("testsuite", name=plain(section.path))
    if section.findings:
        suite.append(_case(section.path, _OF_THE_FILE, section.findings))
    for numbered in section.gradients:
        findings = [report.findings[i] for i in numbered.gradient.findings]
        suite.append(_of_gradient(numbered.gradient, findings))
    _count(suite)
    return suite


def _of_gradient(gradient: Gradient, findings: Sequence[Finding]) -> ET.Element:
    on = f" on {gradient.backend}" if gradient.backend != gradient.framework else ""
    case = _case(gradient.path, f"{gradient.qualname}{on}", findings)
    if gradient.status is Status.UNCHECKED and case.find("failure") is None:
        ET.SubElement(case, "skipped", message=plain(gradient.reason or "could not be checked"))
    return case


def _case(path: str, name: str, findings: Sequence[Finding]) -> ET.Element:
    """One case: each error a failure, all else beside its output."""
    case = ET.Element("testcase", classname=plain(path), name=plain(name), file=plain(path))
    if findings:
        case.set("line", str(findings[0].gradient_line or findings[0].line))
    for finding in (f for f in findings if f.severity is Severity.ERROR):
        failure = ET.SubElement(case, "failure", type=finding.rule, message=headline(finding))
        failure.text = _told(finding)
    others = [f for f in findings if f.severity is not Severity.ERROR]
    if others:
        ET.SubElement(case, "system-out").text = "\n".join(map(_told, others))
    return case


def _told(finding: Finding) -> str:
    place = f"{finding.path}:{finding.line}:{finding.column}"
    lines = [f"{place}: {finding.severity}[{finding.rule}] {headline(finding)}", advice(finding)]
    lines.append(f"again: {finding.reproduce}" if finding.reproduce else "")
    return plain("\n".join(filter(None, lines)))


def _count(element: ET.Element) -> None:
    """Write how many cases are in it, and what became of them."""
    cases = list(element.iter("testcase"))
    element.set("tests", str(len(cases)))
    element.set("failures", str(sum(case.find("failure") is not None for case in cases)))
    element.set("errors", "0")
    element.set("skipped", str(sum(case.find("skipped") is not None for case in cases)))
