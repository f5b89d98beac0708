"""A worker's death as a finding: what happened, while what, and at which point."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradcheck_cli.contract.report import WitnessInput
from gradcheck_cli.contract.worker import Doing, Phase
from gradcheck_cli.project.files import Target
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run import retry
from gradcheck_cli.run.deaths import death
from gradcheck_cli.run.tasks import TargetReader
from gradcheck_cli.workers.pool import End, WorkerEnd

RUNNING = Doing(phase=Phase.RUNNING, detail="while after all", gradient="f", line=7)


def ended(end: End, doing: Doing | None = RUNNING, status: int | None = -11) -> WorkerEnd:
    return WorkerEnd(end, (), doing, status, seconds=30.2)


@pytest.mark.parametrize(
    ("end", "rule", "message", "at_a_point"),
    [
        (End.TIMED_OUT, "timed-out", "`f`: it was still running while after all after 30 s", "`f`: it was still running while after all at x = 2.0, y = [1.0]"),
        (End.OUT_OF_MEMORY, "out-of-memory", "`f`: it used more memory than allowed while running while after all", "`f`: it used more memory than allowed at x = 2.0, y = [1.0]"),
        (End.GARBLED, "worker-crashed", "`f`: it sent garbage while running while after all", "`f`: it sent garbage at x = 2.0, y = [1.0]"),
        (End.DIED, "worker-crashed", "`f`: its process was killed by SIGSEGV while running while after all", "`f`: its process was killed by SIGSEGV at x = 2.0, y = [1.0]"),
    ],
)  # fmt: skip
def test_the_message_says_what_it_was_doing_and_then_at_which_point(
    end: End, rule: str, message: str, at_a_point: str
) -> None:
    known = death("a.py", ended(end))
    assert known is not None
    finding = known.finding
    assert (finding.rule, finding.line, finding.gradient, finding.message) == (
        rule,
        7,
        "f",
        message,
    )
    inputs = [
        WitnessInput(path="x", dtype="float32", shape=[], value=2.0),
        WitnessInput(path="y", dtype="float32", shape=[1], value=[1.0]),
    ]
    point = known.at(Doing(phase=Phase.RUNNING, gradient="f", line=7, inputs=inputs)).finding
    assert point.message == at_a_point
    assert point.reproduce == 'cgcheck a.py:f --at "x=2.0, y=[1.0]"'
    assert point.witness is not None
    assert point.witness.inputs == inputs


def test_the_command_for_what_a_function_makes_names_both() -> None:
    doing = Doing(phase=Phase.RUNNING, gradient="make.<locals>.f", line=7)
    known = death("a b.py", ended(End.DIED, doing))
    assert known is not None
    x = WitnessInput(path="x", dtype="float32", shape=[], value=2.0)
    point = known.at(Doing(phase=Phase.RUNNING, inputs=[x])).finding
    assert point.reproduce == "cgcheck 'a b.py:make.f' --at \"x=2.0\""


def test_a_death_before_the_first_word_belongs_to_the_file() -> None:
    known = death("a.py", ended(End.DIED, doing=None, status=3))
    assert known is not None
    assert known.finding.message == "its process ended with exit code 3 while starting"
    assert (known.finding.line, known.finding.gradient) == (1, None)


def test_a_changed_rule_that_kills_is_no_death_of_the_users_rule() -> None:
    end = ended(End.DIED, Doing(phase=Phase.CORRECTING, gradient="f", line=7))
    assert death("a.py", end) is None
    task = TargetReader(Settings(), Path("/")).task(Target(None, "a", explicit=True), "a")
    rest = retry.rest(task, end)
    assert rest is not None
    assert rest.skip == ["f"]  # it is judged, and would die again
    assert retry.alone(task, end) is None


def test_a_worker_that_finished_has_no_death() -> None:
    assert death("a.py", ended(End.FINISHED)) is None
