"""`check_gradient(function)`: one custom gradient in a unit test, in the caller's own process."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gradcheck_cli import __version__
from gradcheck_cli.check import site_of
from gradcheck_cli.examine import examine
from gradcheck_cli.frameworks.load import load
from gradcheck_cli.frameworks.seam import CustomGradient, Framework
from gradcheck_cli.inputs.language import parse as parse_spec
from gradcheck_cli.intentions import parse as parse_intents
from gradcheck_cli.outcomes import indexed, numbered
from gradcheck_cli.report.text import render
from gradcheck_cli.words import (
    SCHEMA_VERSION,
    Checked,
    Report,
    Severity,
    Status,
    Summary,
    Task,
    Tool,
)

# In the order in which an object is asked about: a function of any of them is one of JAX's, too.
_FRAMEWORKS = ("torch", "tensorflow", "jax")
_FUNCTION = "function"


def check_gradient(
    function: Callable[..., Any],
    *,
    inputs: str | None = None,
    expect: str | None = None,
    dtypes: Sequence[str] = ("float32",),
    points: int = 256,
    seed: int = 0,
    fail_on: str = "error",
) -> None:
    """Raise an `AssertionError` with the whole report if the custom gradient is not right.

    `inputs` and `expect` are what a `# cgcheck:` comment would say: `"x=f32[b n] in [-1, 1]"`,
    `"expect(straight-through)"`. Also what could not be checked raises: silence is no answer.
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not this one
    least = Severity(fail_on)
    if inputs is not None:
        parse_spec(inputs)
    if expect is not None:
        parse_intents(expect)
    gradient, framework = _adopted(function)
    path = gradient.place.path
    task = Task(
        path=path, root=str(Path.cwd()), display=_shown(path), module=None, functions=[], marked={},
        dtypes=list(dtypes), points=points, seed=seed, max_time=None, at=[], reach=1e9, device="cpu",
        cache=None, inputs={} if inputs is None else {gradient.name: inputs},
        expects={} if expect is None else {gradient.name: expect},
    )  # fmt: skip
    site = site_of(gradient, task, path)
    checked = examine(gradient, framework, task, site, lambda *_: None)
    grave = [f for f in checked.findings if f.severity.rank >= least.rank]
    if grave or checked.gradient.status is not Status.CHECKED:
        raise AssertionError("\n\n" + _told(checked, task))


def _told(checked: Checked, task: Task) -> str:
    findings = numbered(checked.findings, 0)
    report = Report(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cgcheck", version=__version__, jax=None),
        summary=Summary(
            exit_code=1, files=1, gradients=1,
            checked=int(checked.gradient.status is Status.CHECKED),
            unchecked=int(checked.gradient.status is not Status.CHECKED),
            errors=_count(checked, Severity.ERROR), warnings=_count(checked, Severity.WARNING),
            notes=_count(checked, Severity.NOTE),
        ),
        gradients=[indexed(checked, range(len(findings)), [])],
        findings=findings,
        not_covered=list(checked.not_covered),
    )  # fmt: skip
    return render(report, Path(task.root), color=False, verbose=False, width=80)


def _count(checked: Checked, severity: Severity) -> int:
    return sum(f.severity is severity for f in checked.findings)


def _adopted(function: Any) -> tuple[CustomGradient, Framework]:
    """What the object is to the framework that made it; a plain function is the one's it uses."""
    found = list(_claims(function))
    if not found:
        raise TypeError(f"{function!r} is nothing that has a gradient")
    custom = [pair for pair in found if pair[0].kind != _FUNCTION]
    used = [pair for pair in found if pair[1].name in _modules(function)]
    return (custom or used or found[-1:])[0]


def _claims(function: Any) -> Iterator[tuple[CustomGradient, Framework]]:
    name = getattr(function, "__name__", type(function).__name__)
    home: Any = SimpleNamespace(**{name: function})
    for each in _FRAMEWORKS:
        if each in sys.modules:
            framework = load(each)
            gradient = framework.named(home, name, "", _own)
            if gradient is not None:
                yield gradient, framework


def _modules(function: Any) -> set[str]:
    """Top-level modules that the function's own module imports."""
    names = getattr(inspect.unwrap(function), "__globals__", {}).values()
    return {
        value.__name__.partition(".")[0]
        for value in names
        if inspect.ismodule(value) and value.__name__
    }


def _own(path: str) -> bool:
    return "/site-packages/" not in path


def _shown(path: str) -> str:
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path
