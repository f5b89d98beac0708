"""What the target and the settings name: functions to check, references to hold them to."""

from __future__ import annotations

import difflib
import inspect
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType

from gradcheck_cli.check.site import own_files, site_of
from gradcheck_cli.check.user_says import places_of
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import FileFinding, Mark, Task
from gradcheck_cli.discover import importing
from gradcheck_cli.project.files import spoken
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import CustomGradient, Framework
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


@dataclass(frozen=True, slots=True)
class Selection:
    """Gradients that are to be checked, and findings about names that lead to none."""

    gradients: Sequence[CustomGradient]
    findings: Sequence[FileFinding] = ()


def is_named(mark: Mark, functions: Sequence[str]) -> bool:
    """Is it one of the named functions, or made inside one? Nothing else needs to be called."""
    return not functions or any(
        mark.name == function.rpartition(".")[2]
        or f"{mark.scope or ''}.".startswith(f"{function}.")
        for function in functions
    )


def named(
    module: ModuleType,
    framework: Framework,
    task: Task,
    path: str,
    gradients: Sequence[CustomGradient],
) -> Selection:
    """The functions that the target names, custom gradients or not; the last framework that is asked says what is amiss."""
    chosen: list[CustomGradient] = []
    findings: list[FileFinding] = []
    for name in task.functions:
        hits, asked = _with_name(name, gradients), _asked_for(name, task)
        if not hits and framework.name in asked:
            plain = framework.named(module, name, path, own_files(task, module))
            hits = [] if plain is None else [plain]
        if not hits and framework.name == asked[-1]:
            findings.append(_nothing_named(name, module, task, gradients))
        chosen += hits
    return Selection(chosen, findings)


def against_references(
    gradients: Sequence[CustomGradient], module: ModuleType, task: Task, path: str
) -> Selection:
    """The gradients, held to plain functions for which a comment or the settings name one."""
    chosen: list[CustomGradient] = []
    findings: list[FileFinding] = []
    for gradient in gradients:
        places = places_of(gradient, site_of(gradient, task, path)) if task.references else {}
        target = next((task.references[p] for p in places if p in task.references), None)
        try:
            chosen.append(gradient if target is None else _against(gradient, module, target))
        except UserCodeError as raised:
            findings.append(_no_reference(gradient, task, str(target), raised.error))
    return Selection(chosen, findings)


def _asked_for(name: str, task: Task) -> list[str]:
    """The frameworks in which the source defines a gradient of this name; all of them, where it is none."""
    marked = task.marked.items()
    own = [framework for framework, marks in marked if any(is_named(m, [name]) for m in marks)]
    return own or list(task.marked)


def _with_name(name: str, gradients: Sequence[CustomGradient]) -> list[CustomGradient]:
    """Gradients of this name, or else those that the function or the class of this name makes."""
    name = spoken(name)
    own = [g for g in gradients if name in _names(g)]
    return own or [g for g in gradients if spoken(g.place.qualname).startswith(f"{name}.")]


def _names(gradient: CustomGradient) -> tuple[str, ...]:
    """What a gradient is called: by itself, with what is around it, and as its definition is, whatever the module calls it."""
    place = gradient.place
    return gradient.name, spoken(place.qualname), spoken(place.definition or place.qualname)


def _nothing_named(
    name: str, module: ModuleType, task: Task, gradients: Sequence[CustomGradient]
) -> FileFinding:
    message = f"there is no function `{name}` in {task.display}"
    if inspect.isclass(getattr(module, name, None)):
        message = f"`{name}` in {task.display} is a class: name a function or a method"
    rules = [n for g in gradients for n in (g.name, spoken(g.place.qualname))]
    others = [n for n in dict.fromkeys((*rules, *dir(module))) if n != name]
    alike = [n for n in others if n.lower() == name.lower()]  # a rule before the function around it
    close = alike or difflib.get_close_matches(name, others, n=1)
    hint = f"did you mean `{close[0]}`?" if close else "check the name"
    rule = find(RuleName.IMPORT_FAILED)
    return FileFinding(finding=rule.finding(task.display, 1, message, about=name, help=hint))


def _against(gradient: CustomGradient, module: ModuleType, target: str) -> CustomGradient:
    """The gradient with the function of that name as its primal."""
    where, _, name = target.rpartition(":")
    with calling_user_code():
        home = importing.import_module(where) if where else module
        reference = operator.attrgetter(name)(home)
    return gradient.against(reference)


def _no_reference(
    gradient: CustomGradient, task: Task, target: str, error: BaseException
) -> FileFinding:
    why = f"{type(error).__name__}: {error}"
    message = f"the reference `{target}` of `{gradient.name}` is not there: {why}"
    rule, line = find(RuleName.IMPORT_FAILED), gradient.place.line
    return FileFinding(finding=rule.finding(task.display, line, message, about=gradient.name))
