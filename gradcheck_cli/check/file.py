"""The worker's whole way on one page: a file or module → custom gradients → findings."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.module import completed, imported
from gradcheck_cli.check.named import against_references, is_named, named
from gradcheck_cli.check.one_gradient import Emit, check_gradient
from gradcheck_cli.check.records import Records, recording
from gradcheck_cli.check.site import own_files
from gradcheck_cli.check.unreached import unreached, without_gpu
from gradcheck_cli.contract.worker import Doing, FileFinding, Finished, Phase, Task
from gradcheck_cli.frameworks.jax.setup import keep_compiled, keep_tracebacks, work_on_the_cpu
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.project.framework_marks import DEFAULT
from gradcheck_cli.subject.protocol import Framework


def check_file(task: Task, emit: Emit) -> None:
    """Import, find, examine each; whatever goes wrong is said, never raised."""
    keep_compiled(task.cache)
    keep_tracebacks()
    if task.device == "gpu":
        work_on_the_cpu()
    emit(_importing())
    clock = Clock(task.max_time)
    versions = {}
    # What records at import must stand before; other frameworks can be asked afterwards.
    with recording({DEFAULT, *task.marked}) as records:
        module = imported(task, lambda line: emit(_importing(line)))
        if isinstance(module, FileFinding):
            emit(module)
        else:
            task = completed(task, module)
            for name in task.marked:
                framework = load(name)
                versions[name] = framework.version
                _check_module(module, framework, task, records, emit, clock)
    emit(Finished(versions={DEFAULT: load(DEFAULT).version, **versions}, out_of_time=clock.rang))


def _importing(line: int | None = None) -> Doing:
    return Doing(phase=Phase.IMPORTING, line=line)


def _check_module(
    module: ModuleType,
    framework: Framework,
    task: Task,
    records: Records,
    emit: Emit,
    clock: Clock,
) -> None:
    """All gradients of one framework, or those that the target names."""
    path = str(Path(task.path or getattr(module, "__file__", None) or "").resolve())
    emit(Doing(phase=Phase.LOOKING))
    marks = [mark for mark in task.marked[framework.name] if is_named(mark, task.functions)]
    scopes = sorted({mark.scope for mark in marks if mark.scope})
    gradients, missing = framework.find(
        module, path, records.of(framework), scopes, own_files(task, module)
    )
    if task.functions:
        selection = named(module, framework, task, path, gradients)
        gradients = selection.gradients
        for finding in selection.findings:
            emit(finding)
    selection = against_references(gradients, module, task, path)
    for finding in selection.findings:
        emit(finding)
    if task.device == "gpu" and framework.device != "gpu":
        for event in without_gpu(selection.gradients, framework):
            emit(event)
        return
    for gradient in selection.gradients:
        name = gradient.place.qualname
        if not clock.rang and name not in task.skip and task.alone in (None, name):
            check_gradient(gradient, framework, task, path, emit, clock)
    if not task.functions and task.alone is None:
        for event in unreached(marks, gradients, missing):
            emit(event)
