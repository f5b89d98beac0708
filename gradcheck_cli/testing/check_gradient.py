"""`check_gradient(function)` in a unit test: comments and settings are read as on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from gradcheck_cli.contract.report import Severity, Status
from gradcheck_cli.project.input_specs import parse as parse_spec
from gradcheck_cli.project.intent_specs import parse as parse_intents
from gradcheck_cli.project.settings import load, with_flags
from gradcheck_cli.run.exit_code import OK
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.testing.claims import adopted
from gradcheck_cli.testing.session import LoadedSession

_WIDTH = 80


def check_gradient(
    function: Callable[..., Any],
    *,
    inputs: str | None = None,
    expect: str | None = None,
    dtypes: Sequence[str] | None = None,
    points: int | None = None,
    seed: int | None = None,
    fail_on: str | None = None,
) -> None:
    """Raise an `AssertionError` with the whole report if the custom gradient is not right.

    What could not be checked raises, too: silence is no answer. What is given here is stronger than the
    comments of the function's file and the settings of its project. A function without any rule is judged by its
    own floats alone: a decorator that got lost is not noticed.

    - `function`: what holds the rule (a decorated function, a class of `torch.autograd.Function`), or a
      function that calls one.
    - `inputs`: what a `# cgcheck:` comment would say of the arguments, `"x=f32[b n] in [-1, 1]"`.
    - `expect`: a deviation that is meant, `"expect(straight-through)"`.
    - `dtypes`: whose floats are judged, `"bfloat16"` or `["float32", "bfloat16"]`.
    - `points`: how many points are tried for each shape.
    - `seed`: of the numbers that are drawn.
    - `fail_on`: the least severity that raises: `"error"`, `"warning"` or `"note"`.
    """
    __tracebackhide__ = True  # pytest shows the caller's line, not this one
    specs = {} if inputs is None else parse_spec(inputs)
    if expect is not None:
        parse_intents(expect)
    gradient, framework = adopted(function)
    _takes(gradient, specs)
    file = Path(gradient.place.path)
    settings, root = load(file if file.is_file() else Path.cwd())
    flags = {
        "dtype": [dtypes] if isinstance(dtypes, str) else dtypes and list(dtypes),
        "points": points, "seed": seed,
        "fail_on": None if fail_on is None else Severity(fail_on).value,
    }  # fmt: skip
    session = LoadedSession(with_flags(settings, flags, "check_gradient"), root)
    session.check(gradient, framework, inputs=inputs, expect=expect)
    report = session.report()
    unchecked = any(g.status is not Status.CHECKED for g in report.gradients)
    if unchecked or report.summary.exit_code != OK:
        raise AssertionError("\n\n" + session.page(_WIDTH))


def _takes(gradient: CustomGradient, specs: Iterable[str]) -> None:
    """Does it take the arguments that the call speaks of? A warning, as for a comment, would be lost in a green test."""
    names = [parameter.name for parameter in gradient.parameters()]
    unknown = [name for name in specs if name not in names]
    if unknown:
        taken = ", ".join(f"`{name}`" for name in names)
        raise TypeError(f"the inputs speak of `{unknown[0]}`; `{gradient.name}` takes {taken}")
