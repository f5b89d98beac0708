"""A worker's time: what was found is told before it is up, and the rest of the file is checked."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from gradcheck_cli.check.deadline import Clock, OutOfTime
from gradcheck_cli.check.file import check_file
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import Verdict
from gradcheck_cli.contract.worker import Checked, Event, Finished, Mark, Phase, Task
from tests.conftest import check_json

SLOW = """import jax
import jax.numpy as jnp


@jax.custom_gradient
def slow(x):
    def body(i, h):
        return jnp.tanh(1.1 * h + 0.3 * jnp.sin(h))

    def pulled(z):
        return jax.lax.scan(lambda h, _: (body(0, h), None), z, None, length=20000)[0]

    return jax.lax.fori_loop(0, 20000, body, x), lambda ct: jax.vjp(pulled, x)[1](ct)


@jax.custom_gradient
def after(x):
    return 2 * x, lambda ct: 2 * ct
"""


@pytest.mark.slow
def test_what_takes_too_long_costs_itself_alone(project: Path) -> None:
    (project / "a.py").write_text(SLOW)
    run = check_json("a.py", "--max-time", "30", cwd=project)
    assert run.gradient("after")["verdict"] == "correct"
    late = [item for item in run.report["not_covered"] if item["gradient"] == "slow"]
    assert any("raise --max-time" in item["reason"] for item in late), run.report
    assert "timed-out" not in run.rules()


WRONG = """import jax


@jax.custom_gradient
def wrong(x):
    return x * x, lambda ct: 3 * x * ct
"""


def test_findings_are_kept_when_no_time_is_left_for_a_correction(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(*_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)  # the alarm of the worker's clock
        _wait(2)

    monkeypatch.setattr("gradcheck_cli.check.corrections.correction", endless)
    (project / "a.py").write_text(WRONG)
    events: list[Event] = []
    check_file(_task(project / "a.py"), events.append)
    before, checked = (event for event in events if isinstance(event, Checked))
    assert (before.provisional, checked.provisional) == (True, False)
    assert {f.rule for f in checked.findings} == {"gradient-mismatch"}
    assert checked.gradient.verdict is Verdict.WRONG
    assert [item.what for item in checked.not_covered] == ["the change that makes it right"]
    assert isinstance(events[-1], Finished) and events[-1].out_of_time


TWO = """import jax


@jax.custom_gradient
def first(x):
    return 2 * x, lambda ct: 2 * ct


@jax.custom_gradient
def second(x):
    return 2 * x, lambda ct: 2 * ct
"""


def test_what_is_cut_off_where_others_took_the_time_is_begun_again(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def endless(request: Request, _: object) -> Iterator[GradientOutcome]:
        if request.gradient.name == "second":
            request.progress.doing(Phase.COMPARING)
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            _wait(2)
        yield GradientOutcome()

    def told(name: str) -> list[tuple[bool, bool]]:
        """Of each gradient that is told, whether it is provisional; and whether time ran out."""
        events: list[Event] = []
        monkeypatch.setattr("gradcheck_cli.check.deadline._EARLY", 0.0 if name == "late" else 1.0)
        check_file(msgspec.structs.replace(_task(project / "a.py"), max_time=60.0), events.append)
        return [(e.provisional, events[-1].out_of_time) for e in events if isinstance(e, Checked)]

    (project / "a.py").write_text(TWO)
    monkeypatch.setattr("gradcheck_cli.check.gradient.outcomes", endless)
    assert told("late") == [(False, True), (True, True)]
    assert told("early") == [(False, True), (False, True)]


class _Collected:
    """What Python lets go of in the middle of the work: what is raised there goes nowhere."""

    def __del__(self) -> None:
        _wait(0.3)


def _wait(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_alarm_that_is_lost_in_a_finalizer_rings_again() -> None:
    clock = Clock(0.1)

    def losing() -> None:
        clock.ours = True
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        _Collected()
        assert clock.rang
        _wait(5)

    with pytest.raises(OutOfTime), clock.running():
        losing()


def _task(path: Path) -> Task:
    return Task(
        path=str(path), root=str(path.parent), display=path.name, module=None, functions=[],
        marked={"jax": [Mark("wrong", 1, "jax", "custom_vjp")]}, dtypes=["float32"], points=32, seed=0, max_time=600.0, at=[],
        reach=1e9, device="cpu", cache=None,
    )  # fmt: skip


@pytest.mark.parametrize("phase", Phase)
def test_the_alarm_never_rings_while_user_code_is_called_for_the_first_time(phase: Phase) -> None:
    users = {Phase.IMPORTING, Phase.LOOKING, Phase.INPUTS, Phase.TRACING, Phase.RUNNING}
    assert phase.is_ours == (phase not in {*users, Phase.STARTING})
