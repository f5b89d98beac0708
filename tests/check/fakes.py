"""Fakes of what a check is asked about: a gradient by its name alone, a request without a framework."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from gradcheck_cli.check.deadline import Clock
from gradcheck_cli.check.hints import Opening
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.progress import Progress
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.worker import Event, Task
from gradcheck_cli.inputs.signature import Hints, Parameter
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.subject.results import Place

TASK = Task(
    path="", root="/", display="a.py", module=None, functions=[], marked={}, dtypes=["float32"],
    points=32, seed=0, max_time=10.0, at=[], reach=1e9, device="cpu", cache=None,
)  # fmt: skip


@dataclass(frozen=True)
class FakeGradient:
    """A custom gradient of which nothing is run."""

    qualname: str = "f"
    arguments: Sequence[str] = ("x",)
    reference: Callable[..., Any] | None = None
    kind: str = "custom_vjp"
    framework: str = "jax"
    backend: str = "jax"

    @property
    def name(self) -> str:
        return self.qualname.rpartition(".")[2]

    @property
    def spelling(self) -> str:
        return self.name

    @property
    def place(self) -> Place:
        return Place("a.py", 7, self.qualname)

    def parameters(self) -> Sequence[Parameter]:
        return [Parameter(name, i, True, False) for i, name in enumerate(self.arguments)]

    def against(self, reference: Callable[..., Any]) -> FakeGradient:
        return replace(self, reference=reference)

    def rule_code(self) -> Sequence[Any]:
        return ()


@dataclass(frozen=True)
class FakeFramework:
    """A framework that knows plain functions by name."""

    functions: Sequence[str] = ()
    name: str = "jax"
    device: str = "cpu"
    writing: Any = None

    def hints(self, gradient: Any) -> Hints:
        return Hints(keys={}, unpacked={}, functions=[])

    def steady(self) -> AbstractContextManager[None]:
        return nullcontext()

    def named(self, module: Any, name: str, path: str, own: Any) -> FakeGradient | None:
        return FakeGradient(name, kind="function") if name in self.functions else None


def opening(*intents: Declared, hints: Hints | None = None) -> Opening:
    """An opening with these declarations, in which nothing is known of the inputs."""
    nothing = Hints(keys={}, unpacked={}, functions=[])
    return Opening(hints or nothing, intents, GradientOutcome())


@dataclass
class Asked:
    """A request about the fake gradient, and the events that it gave rise to."""

    events: list[Event] = field(default_factory=list)

    def request(self, task: Task = TASK) -> Request:
        gradient: Any = FakeGradient()
        framework: Any = FakeFramework()
        site = Site("a.py", 7, 5, 6, "f", "a.py")
        return Request(gradient, framework, task, site, Progress("f", 7, self.events.append, Clock(None)))  # fmt: skip
