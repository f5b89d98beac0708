"""What the workers of a batch bring is taken file by file, in the order of the tasks; by hand, no worker ran."""

from __future__ import annotations

from gradcheck_cli.contract.worker import Checked, Finished
from gradcheck_cli.run.batch import Batch
from gradcheck_cli.run.target_file import File
from gradcheck_cli.run.tasks import needs
from gradcheck_cli.workers.pool import End, WorkerEnd
from tests.reports import checked, task

FINISHED = Finished(versions={})


def ended(*events: Checked, end: End = End.FINISHED) -> WorkerEnd:
    last = (FINISHED,) if end is End.FINISHED else ()
    return WorkerEnd(end, (*events, *last), None, 0, 1.0)


def names(file: File) -> list[str]:
    return [each.gradient.name for each in file.gradients]


def test_a_file_is_done_with_the_last_of_its_tasks_and_has_them_in_order() -> None:
    first, second, other = (
        task("a.py", functions=["f"]),
        task("a.py", functions=["g"]),
        task("b.py"),
    )
    a, b = File("a.py", pending=[first, second]), File("b.py", pending=[other])
    batch = Batch([a, b], needs(first), None)
    assert batch.tasks == [first, second, other]
    assert batch.ended(second, ended(checked(name="g"))) is None
    assert names(a) == []
    assert batch.ended(other, ended(checked(name="h"))) is b
    assert batch.ended(first, ended(checked(name="f"))) is a
    assert (names(a), a.pending) == (["f", "g"], [])


def test_tasks_of_another_kind_stay_pending() -> None:
    torch = task("a.py", marked={"torch": []})
    mine = task("a.py", marked={"jax": []})
    file = File("a.py", pending=[torch, mine])
    batch = Batch([file], needs(mine), None)
    assert batch.tasks == [mine]
    assert batch.ended(mine, ended()) is None
    assert file.pending == [torch]


def test_an_interrupt_keeps_what_was_sent_and_says_what_was_cut_off() -> None:
    done, cut, unbegun = task("a.py"), task("b.py"), task("c.py")
    files = [File(each.display, pending=[each]) for each in (done, cut, unbegun)]
    batch = Batch(files, needs(done), None)
    whole = ended(checked(name="f"))
    batch.ended(done, whole)
    partly = ended(checked(name="g"), end=End.INTERRUPTED)
    batch.cut_off([whole, partly, ended(end=End.INTERRUPTED)])
    assert [names(file) for file in files] == [["f"], ["g"], []]
    assert [file.stopped for file in files] == [False, True, True]
