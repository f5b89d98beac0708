"""A worker that dies of a bug of ours says so first."""

from __future__ import annotations

import pytest

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Event, FileFinding, Task
from gradcheck_cli.workers.worker import check


def test_a_bug_is_told_with_where_it_happened(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise TypeError("'<' not supported")

    monkeypatch.setattr("gradcheck_cli.check.file.check_file", broken)
    task = Task(
        path="a.py", root=".", display="a.py", module=None, functions=[], marked={}, dtypes=[], points=1, seed=0,
        max_time=None, at=[], reach=1e9, device="cpu", cache=None,
    )  # fmt: skip
    told: list[Event] = []
    with pytest.raises(TypeError):
        check(task, told.append)
    (event,) = told
    assert isinstance(event, FileFinding)
    assert event.finding.rule == RuleName.INTERNAL_ERROR
    assert "in broken" in (event.finding.help or "")
