"""The worker's whole way on one page: a file or module → custom gradients → findings."""

from __future__ import annotations

import ast
import contextlib
import difflib
import inspect
import operator
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import msgspec

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.gradient import examine
from gradcheck_cli.check.only_inputs import only_inputs
from gradcheck_cli.check.progress import Progress
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import NotCovered
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import (
    Doing,
    Event,
    FileFinding,
    Finished,
    Mark,
    Phase,
    Task,
    Unreached,
)
from gradcheck_cli.discover import importing, lines
from gradcheck_cli.frameworks.jax.setup import keep_compiled
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.framework_marks import DEFAULT, NAMES
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.project.source_marks import by_framework, find_marks, imported_roots
from gradcheck_cli.subject.protocol import CustomGradient, Framework, Own
from gradcheck_cli.subject.results import Found, Missing
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Emit = Callable[[Event], None]


def check_file(task: Task, emit: Emit) -> None:
    """Import, find, examine each; whatever goes wrong is said, never raised."""
    keep_compiled(task.cache)
    emit(Doing(phase=Phase.IMPORTING))
    clock = Clock(task.max_time)
    used: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        # What records at import must stand before; other frameworks can be asked afterwards.
        recorded: dict[str, list[Found]] = {}
        for name in sorted({DEFAULT, *task.marked}):
            with contextlib.suppress(UserCodeError):  # the file's own import will say so
                with calling_user_code():
                    framework = load(name)
                recorded[name] = stack.enter_context(framework.recording())
        module = _import(task, emit)
        if module is not None:
            if task.module and task.functions:
                module = importing.home(module, task.functions)
            task = _completed(task, module)
            for name in task.marked:
                framework = load(name)
                used[name] = framework.version
                if name not in recorded:  # known only now: what is still to be made
                    recorded[name] = stack.enter_context(framework.recording())
                _check_module(module, framework, task, recorded[name], emit, clock)
    versions = {DEFAULT: load(DEFAULT).version, **used}
    emit(Finished(versions=versions, out_of_time=clock.rang))


def check_loaded(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    emit: Emit,
    calls: Sequence[Signature] = (),
) -> None:
    """One gradient of this very process, as it was called; no time limit, for there is no worker to kill."""
    path = gradient.place.path
    home = next((m for m in list(sys.modules.values()) if _is_from(m, path)), ModuleType(""))
    for each in _against_references([gradient], home, task, emit):
        _check_one(each, framework, task, path, emit, Clock(None), calls)
    emit(Finished(versions={"jax": load("jax").version, framework.name: framework.version}))


def _is_from(module: ModuleType, path: str) -> bool:
    return getattr(module, "__dict__", {}).get("__file__") == path  # asks no lazy module to load


def _check_module(
    module: ModuleType,
    framework: Framework,
    task: Task,
    recorded: list[Found],
    emit: Emit,
    clock: Clock,
) -> None:
    path = str(Path(task.path or getattr(module, "__file__", None) or "").resolve())
    own = _own(task, module)
    emit(Doing(phase=Phase.LOOKING))
    marked = [mark for mark in task.marked[framework.name] if _is_meant(mark, task.functions)]
    scopes = sorted({mark.scope for mark in marked if mark.scope})
    gradients, missing = framework.find(module, path, recorded, scopes, own)
    if task.functions:
        gradients = _named(module, framework, task, gradients, path, own, emit)
    for gradient in _against_references(gradients, module, task, emit):
        name = gradient.place.qualname
        if not clock.rang and name not in task.skip and task.alone in (None, name):
            _check_one(gradient, framework, task, path, emit, clock)
    if not task.functions and task.alone is None:
        _tell_unreached(marked, gradients, missing, emit)


def _completed(task: Task, module: ModuleType) -> Task:
    """The task with its frameworks: what an installed module defines is known only once it is imported."""
    if task.path and task.marked:
        return task
    try:
        tree = ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return msgspec.structs.replace(task, marked=task.marked or {DEFAULT: []})
    marked = by_framework(find_marks(tree))
    if task.functions or not marked:
        # A plain function belongs to the framework that its module imports.
        used = NAMES & (imported_roots(tree) | {module.__name__.partition(".")[0]})
        marked = marked or {name: [] for name in sorted(used) or [DEFAULT]}
    return msgspec.structs.replace(task, marked=marked)


def _is_meant(mark: Mark, functions: Sequence[str]) -> bool:
    """Is it one of the named functions, or made inside one? Nothing else needs to be called."""
    return not functions or any(
        mark.name == function.rpartition(".")[2]
        or f"{mark.scope or ''}.".startswith(f"{function}.")
        for function in functions
    )


def _tell_unreached(
    marked: Sequence[Mark],
    gradients: Sequence[CustomGradient],
    missing: Sequence[Missing],
    emit: Emit,
) -> None:
    """What the source defines and the run did not meet, each with its reason."""
    scopes = {item.place.qualname: item.reason for item in missing if item.is_scope}
    for item in missing:
        if not item.is_scope:
            emit(Unreached(not_covered=_unreached(item.place.qualname, item.reason)))
    met = {(g.place.definition or g.place.qualname).replace(".<locals>", "") for g in gradients}
    met |= {item.place.qualname.replace(".<locals>", "") for item in missing}
    names = [mark.name for mark in marked]
    for mark in marked:
        name, scope = mark.name, mark.scope or ""
        single = names.count(name) == 1 and any(q.rpartition(".")[2] == name for q in met)
        if single or mark.is_anonymous or f"{scope}.{name}".strip(".") in met:
            continue
        emit(Unreached(not_covered=_unreached(name, scopes.get(scope) or _why_unreached(scope))))


def _check_one(
    gradient: CustomGradient,
    framework: Framework,
    task: Task,
    path: str,
    emit: Emit,
    clock: Clock,
    calls: Sequence[Signature] = (),
) -> None:
    site = site_of(gradient, task, path)
    progress = Progress(gradient.place.qualname, site.line, emit, clock)
    request = Request(gradient, framework, task, site, progress, calls)
    try:
        if task.sweep is not None:
            from gradcheck_cli.check.sweep.work import sweep

            sweep(gradient, framework, task, site, emit)
            return
        with clock.running():
            for checked in [only_inputs(request)] if task.only_inputs else examine(request):
                emit(checked)
    except Exception as error:
        told = traceback.format_exc(limit=-3)
        message = f"cgcheck itself failed on `{gradient.name}`: {type(error).__name__}: {error}"
        finding = find(RuleName.INTERNAL_ERROR).finding(
            task.display, site.line, message, about=gradient.name, help=told
        )
        emit(FileFinding(finding=finding))


def _import(task: Task, emit: Emit) -> ModuleType | None:
    rule, line = RuleName.IMPORT_FAILED, 1
    try:
        return (
            importing.import_file(Path(task.path))
            if task.path
            else importing.import_module(task.module or "")
        )
    except SystemExit as error:
        rule, message = (
            RuleName.MODULE_EXITED,
            f"the module calls sys.exit({error.code!r}) while it is imported",
        )
        line = lines.raised_at(error, task.path)
    except ModuleNotFoundError as error:
        message = f"the module imports `{error.name}`, which is not installed here"
        line = lines.raised_at(error, task.path)
        if error.name and (task.module or "").startswith(error.name):
            message = f"there is no module `{error.name}`"
        else:
            message += f": pip install {(error.name or '').partition('.')[0]}"
    except BaseException as error:
        message = f"importing it raised {type(error).__name__}: {str(error)[:300]}"
        line = lines.raised_at(error, task.path)
    emit(FileFinding(finding=find(rule).finding(task.display, line, message)))
    return None


def _named(
    module: ModuleType,
    framework: Framework,
    task: Task,
    known: Sequence[CustomGradient],
    path: str,
    own: Own,
    emit: Emit,
) -> list[CustomGradient]:
    """The functions that the target names, custom gradients or not."""
    chosen: list[CustomGradient] = []
    last = framework.name == list(task.marked)[-1]
    for name in task.functions:
        hits = [g for g in known if name in (g.name, g.place.qualname)]
        if not hits:
            hits = [g for g in known if g.place.qualname.startswith(f"{name}.<locals>.")]
        if not hits:
            direct = framework.named(module, name, path, own)
            hits = [direct] if direct is not None else []
        if not hits and last:
            message = f"there is no function `{name}` in {task.display}"
            if inspect.isclass(getattr(module, name, None)):
                message = f"`{name}` in {task.display} is a class: name a function or a method"
            close = difflib.get_close_matches(
                name, [n for n in [g.name for g in known] + dir(module) if n != name], n=1
            )
            hint = f"did you mean `{close[0]}`?" if close else "check the name"
            finding = find(RuleName.IMPORT_FAILED).finding(
                task.display, 1, message, about=name, help=hint
            )
            emit(FileFinding(finding=finding))
        chosen += hits
    return chosen


def _against_references(
    gradients: Sequence[CustomGradient], module: ModuleType, task: Task, emit: Emit
) -> list[CustomGradient]:
    """Those for which the settings name a plain function are held to that one."""
    chosen: list[CustomGradient] = []
    for gradient in gradients:
        names = (gradient.place.qualname, gradient.name)
        target = next((task.references[n] for n in names if n in task.references), None)
        if target is None:
            chosen.append(gradient)
            continue
        try:
            where, _, name = target.rpartition(":")
            with calling_user_code():
                home = importing.import_module(where) if where else module
                reference = operator.attrgetter(name)(home)
        except UserCodeError as raised:
            error = raised.error
            told = f"{type(error).__name__}: {error}"
            message = f"the reference `{target}` of `{gradient.name}` is not there: {told}"
            line = gradient.place.line
            finding = find(RuleName.IMPORT_FAILED).finding(
                task.display, line, message, about=gradient.name
            )
            emit(FileFinding(finding=finding))
            continue
        chosen.append(gradient.against(reference))
    return chosen


def _own(task: Task, module: ModuleType) -> Own:
    """Whose code is the user's: the project's files, or the checked package's own."""
    if task.path:
        root, here = str(Path(task.root).resolve()), str(Path(task.path).resolve())
        site = tuple(p for p in map(str, sys.path) if p.endswith("site-packages"))
        return lambda path: (
            path == here or (path.startswith(root + "/") and not path.startswith(site))
        )
    package = sys.modules[module.__name__.partition(".")[0]]
    folders = tuple(f"{Path(p).resolve()}/" for p in getattr(package, "__path__", []))
    return lambda path: bool(folders) and path.startswith(folders)


def site_of(gradient: CustomGradient, task: Task, path: str) -> Site:
    """Where the gradient is shown to be."""
    source = gradient.place.path if task.module else path
    line, column, end = lines.definition(source, gradient.place)
    shown = task.display if task.path else lines.shown(gradient.place.path, task.root)
    return Site(
        shown, line, column, end, gradient.place.qualname, task.module or task.display, task.root,
        lines.header_end(source, line),
    )  # fmt: skip


def _unreached(name: str, reason: str) -> NotCovered:
    add = f"a line at module level that makes it, such as `{name} = …`"
    return NotCovered.whole(name, reason, add)


def _why_unreached(scope: str) -> str:
    if scope:
        return (
            f"it is made inside `{scope}`, and calling that with guessed arguments did not make it"
        )
    return "the source defines it, but the import did not make it"
