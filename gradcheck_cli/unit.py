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
from gradcheck_cli.frameworks.marks import ASKED
from gradcheck_cli.frameworks.seam import CustomGradient, Framework
from gradcheck_cli.inputs.language import parse as parse_spec
from gradcheck_cli.inputs.spec import Signature
from gradcheck_cli.intentions import parse as parse_intents
from gradcheck_cli.outcomes import indexed, numbered
from gradcheck_cli.recorder import own
from gradcheck_cli.report.text import render
from gradcheck_cli.words import (
    SCHEMA_VERSION,
    Checked,
    Finding,
    Report,
    Severity,
    Status,
    Summary,
    Task,
    Tool,
)

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
    checked = judged(
        gradient, framework, (), points, dtypes=dtypes, seed=seed,
        inputs={} if inputs is None else {gradient.name: inputs},
        expects={} if expect is None else {gradient.name: expect},
    )  # fmt: skip
    grave = [f for f in checked.findings if f.severity.rank >= least.rank]
    if grave or checked.gradient.status is not Status.CHECKED:
        raise AssertionError("\n\n" + told([checked], 80))


def judged(
    gradient: CustomGradient,
    framework: Framework,
    calls: Sequence[Signature],
    points: int,
    *,
    dtypes: Sequence[str] = ("float32",),
    seed: int = 0,
    inputs: dict[str, str] | None = None,
    expects: dict[str, str] | None = None,
) -> Checked:
    """One gradient, here and now."""
    path = gradient.place.path
    task = Task(
        path=path, root=str(Path.cwd()), display=_shown(path), module=None, functions=[], marked={},
        dtypes=list(dtypes), points=points, seed=seed, max_time=None, at=[], reach=1e9, device="cpu",
        cache=None, inputs=inputs or {}, expects=expects or {},
    )  # fmt: skip
    site = site_of(gradient, task, path)
    return examine(gradient, framework, task, site, lambda *_: None, calls)


def told(all_checked: Sequence[Checked], width: int) -> str:
    """The report that people read."""
    findings: list[Finding] = []
    gradients = []
    for number, checked in enumerate(all_checked):
        numbers = range(len(findings), len(findings) + len(checked.findings))
        findings += numbered(checked.findings, number)
        gradients.append(indexed(checked, numbers, []))
    done = sum(g.status is Status.CHECKED for g in gradients)
    report = Report(
        schema_version=SCHEMA_VERSION,
        tool=Tool(name="cgcheck", version=__version__, jax=None),
        summary=Summary(
            exit_code=1, files=len({g.path for g in gradients}), gradients=len(gradients),
            checked=done, unchecked=len(gradients) - done, errors=_count(findings, Severity.ERROR),
            warnings=_count(findings, Severity.WARNING), notes=_count(findings, Severity.NOTE),
        ),
        gradients=gradients,
        findings=findings,
        not_covered=[item for checked in all_checked for item in checked.not_covered],
    )  # fmt: skip
    return render(report, Path.cwd(), color=False, verbose=False, width=width)


def _count(findings: Sequence[Finding], severity: Severity) -> int:
    return sum(f.severity is severity for f in findings)


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
    for each in ASKED:
        if each in sys.modules:
            framework = load(each)
            gradient = framework.named(home, name, "", own)
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


def _shown(path: str) -> str:
    try:
        return Path(path).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path
