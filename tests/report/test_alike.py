"""What many files have in common is told once; -v tells each."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from gradcheck_cli.contract.report import NotCovered, Status
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report.look import Look
from gradcheck_cli.report.text.alike import listed
from gradcheck_cli.report.text.page import render
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.reports import checked, finding

MISSING = "the module imports `cuda`, which is not installed here"


def failed(path: str, message: str = MISSING) -> File:
    """A file that could not be imported, with the gradient that it defines."""
    alone = replace(finding("import-failed", 1, message), path=path, gradient=None)
    left = NotCovered.whole(f"{path}_rule", "its file could not be imported")
    return File(path, findings=[alone], not_covered=[replace(left, path=path)])


def page(files: list[File], folder: Path, *, verbose: bool = False) -> str:
    report = assemble(files, Settings())
    return render(report, Look(folder, color=False, verbose=verbose, width=80))


def test_a_missing_package_is_told_once(tmp_path: Path) -> None:
    files = [failed(f"{name}.py") for name in "abcdefgh"]
    text = page([*files, failed("z.py", "another one")], tmp_path)
    assert text.count("the module imports `cuda`") == 1
    assert "same  in b.py, c.py, d.py, e.py and 3 more (-v tells each)" in text
    assert "another one" in text
    told = "a.py_rule, b.py_rule, c.py_rule, d.py_rule and 5 more: the whole gradient: its"
    assert told in text
    assert text.count("its file could not be imported") <= 1


def test_a_file_whose_gradient_has_a_finding_of_its_own_is_told(tmp_path: Path) -> None:
    def raising(path: str) -> File:
        raised = replace(finding("rule-raises", message=f"the rule in {path} raises"), path=path)
        alone = checked(raised, path=path, status=Status.UNCHECKED)
        file = failed(path)
        file.gradients.append(replace(alone, gradient=replace(alone.gradient, verdict=None)))
        return file

    text = page([raising(f"{name}.py") for name in "abc"], tmp_path)
    assert [f"the rule in {name}.py raises" in text for name in "abc"] == [True, True, True]


def test_two_are_told_one_by_one_and_so_are_all_in_detail(tmp_path: Path) -> None:
    two = page([failed("a.py"), failed("b.py")], tmp_path)
    assert two.count("the module imports `cuda`") == 2
    every = page([failed(f"{name}.py") for name in "abcd"], tmp_path, verbose=True)
    assert every.count("the module imports `cuda`") == 4
    assert every.count("its file could not be") == 4


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b", "a"], "a and b"), (list("abcde"), "a, b, c, d and e"), (list("abcdef"), "a, b, c, d and 2 more")],
)  # fmt: skip
def test_names_in_a_sentence(names: list[str], text: str) -> None:
    assert listed(names) == text
