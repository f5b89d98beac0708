"""After a death: what is left to do, and how its point is looked for."""

from __future__ import annotations

import msgspec
import pytest

from gradcheck_cli.contract.report import WitnessInput
from gradcheck_cli.contract.worker import Doing, Event, Finished, Phase, Task
from gradcheck_cli.run.retry import alone, died_of, located, rest, survived
from gradcheck_cli.workers.pool import End, WorkerEnd
from tests.reports import checked, task

RUNNING = Doing(phase=Phase.RUNNING, gradient="deadly", line=7)
POINT = Doing(
    phase=Phase.RUNNING, gradient="deadly", line=7,
    inputs=[WitnessInput(path="x", dtype="float32", shape=[], value=2.0)],
)  # fmt: skip


def ended(end: End, *events: Event, doing: Doing | None = RUNNING, quiet: float = 0.0) -> WorkerEnd:
    return WorkerEnd(end, events, doing, None, seconds=1.0, quiet=quiet)


def test_the_rest_of_a_file_leaves_out_what_is_done_and_what_was_deadly() -> None:
    new = rest(task(skip=["earlier"]), ended(End.DIED, checked(qualname="done")))
    assert new == task(skip=["earlier", "done", "deadly"])


def test_a_worker_that_ran_out_of_time_leaves_only_what_is_done() -> None:
    late = ended(End.FINISHED, checked(qualname="done"), Finished(versions={}, out_of_time=True))
    assert rest(task(), late) == task(skip=["done"])


def test_what_was_cut_off_where_others_took_the_time_is_begun_again() -> None:
    cut = msgspec.structs.replace(checked(qualname="cut"), provisional=True)
    late = ended(
        End.FINISHED, checked(qualname="done"), cut, Finished(versions={}, out_of_time=True)
    )
    assert rest(task(), late) == task(skip=["done"])


def test_a_gradient_does_without_the_call_of_our_own_that_was_deadly() -> None:
    calling = Doing(phase=Phase.INPUTS, gradient="deadly", line=7, call="deadly(x: float[3])")
    new = rest(task(deadly=["earlier"]), ended(End.DIED, checked(qualname="done"), doing=calling))
    assert new == task(skip=["done"], deadly=["earlier", "deadly(x: float[3])"])
    often = task(deadly=[f"deadly {i}" for i in range(6)])
    assert rest(often, ended(End.DIED, doing=calling)) == msgspec.structs.replace(
        often, skip=["deadly"]
    )
    assert rest(task(), ended(End.TIMED_OUT, doing=calling)) == task(skip=["deadly"])


@pytest.mark.parametrize(
    ("asked", "end"),
    [
        (task(), ended(End.FINISHED, Finished(versions={}))),
        (task(), ended(End.DIED, doing=Doing(phase=Phase.IMPORTING))),
        (task(alone="deadly"), ended(End.DIED)),
    ],
    ids=["finished", "died at import", "was the search for the point"],
)
def test_nothing_is_left_to_do(asked: Task, end: WorkerEnd) -> None:
    assert rest(asked, end) is None


@pytest.mark.parametrize(("max_time", "seconds"), [(None, 60.0), (20.0, 20.0), (900.0, 60.0)])
def test_a_deadly_gradient_is_run_alone_within_a_minute(
    max_time: float | None, seconds: float
) -> None:
    new = alone(task(max_time=max_time), ended(End.DIED))
    assert new == task(alone="deadly", max_time=seconds)


@pytest.mark.parametrize(
    ("alone_already", "end"),
    [
        ("deadly", ended(End.DIED)),
        (None, ended(End.OUT_OF_MEMORY)),
        (None, ended(End.DIED, doing=Doing(phase=Phase.TRACING, gradient="deadly"))),
        (None, ended(End.FINISHED)),
    ],
    ids=["was alone", "out of memory", "no point was running", "finished"],
)
def test_no_point_is_looked_for(alone_already: str | None, end: WorkerEnd) -> None:
    assert alone(task(alone=alone_already), end) is None


def test_what_is_judged_when_it_is_run_alone_did_not_kill_its_worker() -> None:
    whole, other = checked(qualname="deadly"), checked(qualname="another")
    begun = msgspec.structs.replace(whole, provisional=True)
    asked = task(alone="deadly")
    assert survived(asked, ended(End.FINISHED, whole))
    for end in (
        ended(End.DIED, whole), ended(End.FINISHED, begun), ended(End.FINISHED, other),
        ended(End.FINISHED),
    ):  # fmt: skip
        assert not survived(asked, end)


def test_a_worker_died_of_the_gradient_in_hand() -> None:
    assert died_of(ended(End.DIED)) == "deadly"
    assert died_of(ended(End.DIED, doing=None)) is None
    assert died_of(ended(End.FINISHED)) is None


@pytest.mark.parametrize(
    ("end", "point"),
    [
        (ended(End.DIED, doing=POINT), POINT),
        (ended(End.TIMED_OUT, doing=POINT, quiet=11.0), POINT),
        (ended(End.TIMED_OUT, doing=POINT, quiet=1.0), None),
        (ended(End.DIED), None),
        (ended(End.FINISHED, doing=POINT), None),
    ],
    ids=["died", "hung there", "was merely slow", "at no point", "finished"],
)
def test_the_point_of_a_death_is_the_last_one_run(end: WorkerEnd, point: Doing | None) -> None:
    assert located(end) == point
