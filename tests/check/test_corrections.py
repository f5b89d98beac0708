"""A correction runs changed rules: whatever they do costs the correction, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.check.file import check_file
from gradcheck_cli.contract.report import Verdict
from gradcheck_cli.contract.worker import Checked, Event, Mark, Task
from gradcheck_cli.run.target_file import File
from tests.conftest import check_json

DEADLY = """import os

import jax


def scaled(factor, x):
    if factor != 3:
        os._exit(11)
    return factor * x


@jax.custom_gradient
def deadly(x):
    return jax.numpy.sinh(x * x), lambda ct: scaled(3, x) * ct


@jax.custom_gradient
def after(x):
    return 2 * x, lambda ct: 3 * ct
"""


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.slow
def test_a_correction_that_kills_the_process_loses_nothing(project: Path) -> None:
    (project / "a.py").write_text(DEADLY)
    run = check_json("a.py", cwd=project)
    assert {g["qualname"]: g["verdict"] for g in run.report["gradients"]} == {
        "deadly": "wrong", "after": "wrong",
    }  # fmt: skip
    assert set(run.rules()) == {"gradient-mismatch"}
    assert run.code == 1
    assert [(n["gradient"], n["what"]) for n in run.report["not_covered"]] == [
        ("deadly", "the change that makes it right")
    ]


def test_findings_are_handed_out_before_a_correction_is_looked_for(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deadly(*_: object) -> None:
        raise Killed

    monkeypatch.setattr("gradcheck_cli.check.corrections.correction", deadly)
    (project / "a.py").write_text(DEADLY)
    events: list[Event] = []
    with pytest.raises(Killed):
        check_file(_task(project / "a.py"), events.append)
    (checked,) = (event for event in events if isinstance(event, Checked))
    assert checked.gradient.verdict is Verdict.WRONG
    assert {f.rule for f in checked.findings} == {"gradient-mismatch"}
    assert [item.what for item in checked.not_covered] == ["the change that makes it right"]


def test_a_file_keeps_the_later_of_the_two_and_no_other(project: Path) -> None:
    (project / "a.py").write_text(DEADLY.replace("os._exit(11)", "raise ValueError"))
    file = File("a.py")
    events: list[Event] = []
    check_file(_task(project / "a.py"), events.append)
    for event in events:
        file.add(event)
    handed_out = [event for event in events if isinstance(event, Checked)]
    assert [c.provisional for c in handed_out] == [True, False, True, False]
    assert file.gradients == [handed_out[1], handed_out[3]]
    assert all(c.not_covered == [] for c in file.gradients)
    assert [f.fix is not None for c in file.gradients for f in c.findings] == [False, True]


@pytest.mark.slow
def test_a_right_formula_that_overflows_where_the_rule_did_not_is_not_safe() -> None:
    run = check_json("benchmarks/mistakes/jax/focal_loss.py")
    (first, *_) = (f for f in run.findings() if f["fix"] is not None)
    assert "exp" in first["fix"]
    assert first["fix"].endswith(
        "in floats it is NaN or infinite at some inputs at which the rule is not"
    )
    assert not first["fix_is_safe"]


def _task(path: Path) -> Task:
    marks = [Mark(name, 1, "jax", "custom_gradient") for name in ("deadly", "after")]
    return Task(
        path=str(path), root=str(path.parent), display=path.name, module=None, functions=[],
        marked={"jax": marks}, dtypes=["float32"], points=32, seed=0, max_time=600.0, at=[],
        reach=1e9, device="cpu", cache=None,
    )  # fmt: skip
