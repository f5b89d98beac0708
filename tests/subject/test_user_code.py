"""What user code raises is one error of ours; what we raise ourselves shows as a bug of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.check.file import check_file
from gradcheck_cli.contract.sweep_map import Share
from gradcheck_cli.contract.worker import Checked, FileFinding, Mark, Task
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code
from tests.conftest import RIGHT, WRONG

# A rule of its own inside another: JAX's tracer meets our rewriting.
NESTED = """import jax


@jax.custom_jvp
def inner(x):
    return 2 * x


inner.defjvp(lambda primals, tangents: (inner(primals[0]), 2 * tangents[0]))


@jax.custom_gradient
def outer(x):
    return 3 * inner(x), lambda ct: 6 * ct
"""
# The value loses its digits near 0: the step that loses them is looked for.
CANCELS = """import jax
import jax.numpy as jnp


@jax.custom_gradient
def versine(x):
    return 1 - jnp.cos(x), lambda ct: ct * jnp.sin(x)
"""
RAISES_IN_THE_BODY = """import jax


@jax.custom_gradient
def triple(x):
    raise ValueError("a mistake")
"""
RAISES_IN_THE_RULE = """import jax


@jax.custom_gradient
def triple(x):
    def grad(ct):
        raise ValueError("a mistake")

    return 3 * x, grad
"""
ENDS_THE_PROCESS = """import sys

import jax


@jax.custom_gradient
def triple(x):
    sys.exit(3)
"""
RAISES_IN_A_CALLBACK = """import jax
import jax.numpy as jnp


def third(x):
    raise ValueError("a mistake")


@jax.custom_gradient
def triple(x):
    aval = jax.ShapeDtypeStruct(x.shape, x.dtype)
    return jax.pure_callback(third, aval, x), lambda ct: 3 * ct
"""

KEEPS_A_TRACER = """import jax
import jax.numpy as jnp

LAST = {}


@jax.custom_vjp
def sinh(x):
    return jnp.sinh(x)


def remember(x):
    LAST["x"] = x
    return jnp.sinh(x), None


sinh.defvjp(remember, lambda _, ct: (ct * jnp.cosh(LAST["x"]),))
"""


def findings(folder: Path, source: str, sweep: Share | None = None) -> dict[str, str]:
    """Messages of what is found in a file with this source, by the names of their rules."""
    file = folder / f"sample_{abs(hash(source))}.py"
    file.write_text(source)
    task = Task(
        path=str(file), root=str(folder), display=file.name, module=None, functions=[],
        marked={"jax": [Mark("outer", 1, "jax", "custom_vjp")]}, dtypes=["float32"], points=16, seed=0, max_time=None, at=[],
        reach=1e9, device="cpu", cache=None, sweep=sweep,
    )  # fmt: skip
    events: list[Any] = []
    check_file(task, events.append)
    met = [f for event in events if isinstance(event, Checked) for f in event.findings]
    met += [event.finding for event in events if isinstance(event, FileFinding)]
    return {f.rule: f.message for f in met}


def a_bug(*_: Any, **__: Any) -> Any:
    raise ValueError("a mistake")


@pytest.mark.parametrize(
    ("place", "source"),
    [
        ("gradcheck_cli.frameworks.jax.trace._strip", NESTED),
        ("gradcheck_cli.frameworks.shared.tracing.program_of", WRONG),
        ("gradcheck_cli.measure.ball_truth.enclose", WRONG),
        ("gradcheck_cli.frameworks.jax.subject.JaxSubject.rule_program", WRONG),
        ("gradcheck_cli.judge.repair.trial.enclose", WRONG),
        ("gradcheck_cli.judge.diagnose.blame.shadow", CANCELS),
        ("gradcheck_cli.frameworks.jax.over_reals.program_of", RIGHT),
        ("gradcheck_cli.frameworks.jax.over_reals.enclose", RIGHT),
    ],
)
def test_a_bug_of_ours_shows(
    place: str, source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "internal-error" not in findings(tmp_path, source)
    monkeypatch.setattr(place, a_bug)
    assert "ValueError: a mistake" in findings(tmp_path, source + "\n")["internal-error"]


def test_a_bug_in_a_sweep_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gradcheck_cli.check.sweep.line.jet_of", a_bug)
    found = findings(tmp_path, WRONG, Share(number=0, of=1, done=[]))
    assert "ValueError: a mistake" in found["internal-error"]


@pytest.mark.parametrize(
    "source",
    [
        RAISES_IN_THE_BODY,
        RAISES_IN_THE_RULE,
        RAISES_IN_A_CALLBACK,
        ENDS_THE_PROCESS,
        KEEPS_A_TRACER,
    ],
)
def test_a_mistake_of_the_users_is_no_bug_of_ours(source: str, tmp_path: Path) -> None:
    assert "internal-error" not in findings(tmp_path, source)


@pytest.mark.parametrize("error", [ValueError("a mistake"), SystemExit(3)])
def test_what_it_raises_is_kept(error: BaseException) -> None:
    with pytest.raises(UserCodeError) as raised, calling_user_code():
        raise error
    assert raised.value.error is error
    assert str(raised.value) == str(error)


@pytest.mark.parametrize("error", [Rejected("no"), KeyboardInterrupt(), UserCodeError(OSError())])
def test_what_is_no_error_of_user_code_goes_through(error: BaseException) -> None:
    with pytest.raises(type(error)) as raised, calling_user_code():
        raise error
    assert raised.value is error
