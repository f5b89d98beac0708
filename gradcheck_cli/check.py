"""The worker's whole way on one page: a file or module → custom gradients → findings."""

from __future__ import annotations

import ast
import difflib
import inspect
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import jax
import msgspec

from gradcheck_cli.discover import importing, lines
from gradcheck_cli.examine import examine
from gradcheck_cli.finding import Site
from gradcheck_cli.frameworks.jax import find as jax_find
from gradcheck_cli.frameworks.jax.gradient import JaxGradient
from gradcheck_cli.frameworks.jax.hooks import recording
from gradcheck_cli.frameworks.jax.setup import keep_compiled
from gradcheck_cli.frameworks.seam import Found
from gradcheck_cli.inputs.infer.probing import Hints
from gradcheck_cli.inputs.infer.subscripts import keys_read, unpacked
from gradcheck_cli.rulebook import find
from gradcheck_cli.scan.marks import find_marks
from gradcheck_cli.words import (
    Doing,
    Event,
    FileFinding,
    Finished,
    NotCovered,
    Task,
    Unreached,
    WitnessInput,
)

Emit = Callable[[Event], None]


def check_file(task: Task, emit: Emit) -> None:
    """Import, find, examine each; whatever goes wrong is said, never raised."""
    keep_compiled(task.cache)
    emit(Doing(phase="importing"))
    with recording() as recorded:
        module = _import(task, emit)
        if module is not None:
            _check_module(module, task, recorded, emit)
    emit(Finished(jax=str(jax.__version__)))


def _check_module(module: ModuleType, task: Task, recorded: list[Found], emit: Emit) -> None:
    if task.module and not task.functions:
        task = _with_marks(task, module)
    path = str(Path(task.path or getattr(module, "__file__", None) or "").resolve())
    own = _own(task, module)
    emit(Doing(phase="looking for custom gradients"))
    scopes = sorted({scope for mark in task.marked if (scope := mark.partition("@")[2])})
    if task.functions:
        gradients, missing = _named(module, task, recorded, scopes, path, own, emit)
    else:
        gradients, missing = jax_find.find(module, path, recorded, scopes, own)
    for gradient in gradients:
        name = gradient.place.qualname
        if name not in task.skip and task.alone in (None, name):
            _check_one(gradient, task, path, emit)
    if not task.functions and task.alone is None:
        _tell_unreached(task, gradients, missing, emit)


def _with_marks(task: Task, module: ModuleType) -> Task:
    """An installed module's source is known only once it is imported."""
    try:
        marks = find_marks(ast.parse(Path(module.__file__ or "").read_text(encoding="utf-8")))
    except (OSError, SyntaxError, ValueError):
        return task
    marked = [f"{m.name}@{m.scope or ''}" for m in marks if m.framework == "jax"]
    return msgspec.structs.replace(task, marked=marked)


def _tell_unreached(
    task: Task, gradients: list[JaxGradient], missing: list[jax_find.Missing], emit: Emit
) -> None:
    """What the source defines and the run did not meet, each with its reason."""
    scopes = {item.place.qualname: item.reason for item in missing if item.is_scope}
    for item in missing:
        if not item.is_scope:
            emit(Unreached(not_covered=_unreached(item.place.qualname, item.reason)))
    met = {g.place.qualname.replace(".<locals>", "") for g in gradients}
    met |= {item.place.qualname.replace(".<locals>", "") for item in missing}
    names = [mark.partition("@")[0] for mark in task.marked]
    for mark in task.marked:
        name, _, scope = mark.partition("@")
        single = names.count(name) == 1 and any(q.rpartition(".")[2] == name for q in met)
        if single or name.startswith("<") or f"{scope}.{name}".strip(".") in met:
            continue
        emit(Unreached(not_covered=_unreached(name, scopes.get(scope) or _why_unreached(scope))))


def _check_one(gradient: JaxGradient, task: Task, path: str, emit: Emit) -> None:
    site = _site(gradient, task, path)

    def doing(phase: str, inputs: list[WitnessInput] | None = None) -> None:
        name = gradient.place.qualname
        emit(Doing(phase=phase, gradient=name, line=site.line, inputs=inputs or []))

    hints = Hints(
        keys=keys_read(gradient.primal),
        unpacked=unpacked(gradient.primal),
        functions=[("jnp.tanh", jax.numpy.tanh), ("jnp.add", jax.numpy.add)],
        make_key=lambda: jax.random.key(0),
    )
    try:
        emit(examine(gradient, task, site, hints, doing))
    except Exception as error:
        told = traceback.format_exc(limit=-3)
        message = f"cgcheck itself failed on `{gradient.name}`: {type(error).__name__}: {error}"
        finding = find("internal-error").finding(
            task.display, site.line, message, about=gradient.name, help=told
        )
        emit(FileFinding(finding=finding))


def _import(task: Task, emit: Emit) -> ModuleType | None:
    rule, line = "import-failed", 1
    try:
        return (
            importing.import_file(Path(task.path))
            if task.path
            else importing.import_module(task.module or "")
        )
    except SystemExit as error:
        rule, message = (
            "module-exited",
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
    task: Task,
    recorded: list[Found],
    scopes: list[str],
    path: str,
    own: Callable[[str], bool],
    emit: Emit,
) -> tuple[list[JaxGradient], list[jax_find.Missing]]:
    """The functions that the target names, custom gradients or not."""
    known, _ = jax_find.find(module, path, recorded, scopes, own)
    chosen: list[JaxGradient] = []
    for name in task.functions:
        hits = [g for g in known if name in (g.name, g.place.qualname)]
        if not hits:
            direct = jax_find.named(module, name, path, own)
            hits = [direct] if direct is not None else []
        if not hits:
            message = f"there is no function `{name}` in {task.display}"
            if inspect.isclass(getattr(module, name, None)):
                message = f"`{name}` in {task.display} is a class: name a function or a method"
            close = difflib.get_close_matches(
                name, [n for n in [g.name for g in known] + dir(module) if n != name], n=1
            )
            hint = f"did you mean `{close[0]}`?" if close else "check the name"
            finding = find("import-failed").finding(task.display, 1, message, about=name, help=hint)
            emit(FileFinding(finding=finding))
        chosen += hits
    return chosen, []


def _own(task: Task, module: ModuleType) -> Callable[[str], bool]:
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


def _site(gradient: JaxGradient, task: Task, path: str) -> Site:
    source = gradient.place.path if task.module else path
    line, column, end = lines.definition(source, gradient.place)
    shown = task.display if task.path else lines.relative_to_packages(gradient.place.path)
    return Site(
        shown, line, column, end, gradient.place.qualname, task.module or task.display, task.root
    )


def _unreached(name: str, reason: str) -> NotCovered:
    return NotCovered(
        gradient=name,
        law=None,
        what="the whole gradient",
        reason=reason,
        add=f"a line at module level that makes it, such as `{name} = …`",
    )


def _why_unreached(scope: str) -> str:
    if scope:
        return (
            f"it is made inside `{scope}`, and calling that with guessed arguments did not make it"
        )
    return "the source defines it, but the import did not make it"
