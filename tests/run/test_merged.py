"""Several reports as one."""

from __future__ import annotations

from msgspec.structs import replace

from gradcheck_cli.contract.report import Finding, Gradient, Report, Verdict
from gradcheck_cli.project.comments import Ignore
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.merged import merged, without
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding


def report_of(path: str, *rules: str, code: int = 0) -> Report:
    """A report on one file with a gradient that has these findings, and one that has none."""
    wrong = checked(
        *(replace(finding(rule), path=path, fingerprint=path + rule) for rule in rules),
        verdict=Verdict.WRONG,
        path=path,
        qualname="f",
    )
    right = checked(path=path, qualname="g")
    whole = assemble([File(path, gradients=[right, wrong])], Settings())
    return replace(whole, summary=replace(whole.summary, exit_code=max(code, whole.summary.exit_code)))  # fmt: skip


def owners(report: Report) -> list[tuple[str, str, str]]:
    """Each finding's rule, with the file and the name of its gradient, by both numbers."""
    return [
        (f.rule, *owner(report, f, g))
        for g in report.gradients
        for f in (report.findings[k] for k in g.findings)
    ]


def owner(report: Report, f: Finding, g: Gradient) -> tuple[str, str]:
    assert f.gradient_index is not None
    assert report.gradients[f.gradient_index] is g
    return g.path, g.qualname


def test_findings_stay_with_their_gradients() -> None:
    both = merged([report_of("a.py", "gradient-mismatch"), report_of("b.py", "non-finite-value")])
    assert owners(both) == [
        ("gradient-mismatch", "a.py", "f"),
        ("non-finite-value", "b.py", "f"),
    ]
    assert (both.summary.files, both.summary.checked, both.summary.errors) == (2, 4, 2)


def test_the_gravest_exit_code_holds() -> None:
    codes = [merged([report_of("a.py"), report_of("b.py", code=c)]).summary.exit_code for c in (0, 2)]  # fmt: skip
    assert codes == [0, 2]


def test_versions_are_those_that_any_part_names() -> None:
    first, second = report_of("a.py"), report_of("b.py")
    named = [replace(r, tool=replace(r.tool, **{n: "1"})) for r, n in ((first, "jax"), (second, "torch"))]  # fmt: skip
    tool = merged(named).tool
    assert (tool.jax, tool.torch, tool.keras) == ("1", "1", None)


def test_what_is_said_of_a_file_can_be_left_out() -> None:
    both = merged([report_of("a.py", "gradient-mismatch"), report_of("b.py", "non-finite-value")])
    left = without(both, {"a.py"}, Settings())
    assert owners(left) == [("non-finite-value", "b.py", "f")]
    assert [g.path for g in left.gradients] == ["b.py", "b.py"]
    nothing = without(left, {"b.py"}, Settings())
    assert (nothing.findings, nothing.gradients, nothing.summary.exit_code) == ([], [], 0)


def test_what_is_suppressed_goes_with_its_file() -> None:
    ignore = Ignore(3, 3, ("gradient-mismatch",), "known")

    def with_one(path: str) -> Report:
        wrong = checked(replace(finding(), path=path), verdict=Verdict.WRONG, path=path)
        return assemble([File(path, gradients=[wrong], ignores=[ignore])], Settings())

    both = merged([with_one("a.py"), with_one("b.py")])
    assert [item.finding.path for item in both.suppressed] == ["a.py", "b.py"]
    left = without(both, {"b.py"}, Settings())
    assert [item.finding.path for item in left.suppressed] == ["a.py"]
