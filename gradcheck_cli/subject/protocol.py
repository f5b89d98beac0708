"""What a framework offers to the rest of cgcheck, as protocols.

A `CustomGradient` is found in a module; fitted to a `Signature` it becomes a `Subject`, which can be
run in floats and walked over the reals. All is batched: a probe is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Protocol

from gradcheck_cli.inputs.signature import Hints, Leaf, Parameter, Signature
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.refusals import RuleError
from gradcheck_cli.subject.results import (
    Array,
    Floats,
    Found,
    Kernel,
    Limits,
    Missing,
    Place,
    Pullback,
    Sample,
    Spelled,
    Traces,
)
from gradcheck_cli.subject.script_style import ScriptStyle

Own = Callable[[str], bool]  # is this file the user's own?

# Hears of a call: what was called, its arguments, its keywords.
Note = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]


@dataclass(frozen=True, slots=True)
class LibraryFunction:
    """A stable library function that might be the primal, as one would write it.

    `spelled` gives the derivative's text as something that can be verified.
    """

    subject: Subject
    value: str
    gradient: str
    spelled: Callable[[], Spelled | None]
    scope: Mapping[str, Any] = field(
        default_factory=dict
    )  # the modules of these texts, by their names there


class Shaped(Protocol):
    """What every view of a subject has: how it is called, what comes out, whether a user wrote a rule."""

    @property
    def signature(self) -> Signature: ...
    @property
    def dtype(self) -> str: ...
    @property
    def outputs(self) -> Sequence[tuple[int, ...]]: ...
    @property
    def leaves(self) -> Sequence[Leaf]: ...
    @property
    def has_rule(self) -> bool: ...
    @property
    def defaults(self) -> Mapping[str, object]: ...  # what stands for arguments that are left out
    @property
    def sample(self) -> Sample | None: ...  # if only some components are seen


class Traced(Shaped, Protocol):
    """A custom gradient as programs over the reals."""

    # How the function silently reads beyond the end of an array: such sizes are taken by accident.
    def reads_beyond(self) -> str: ...

    @property
    def differentiable(self) -> bool: ...  # does autodiff go through the primal?
    def traces(self) -> Traces: ...
    # From now on there are no such programs: they are not what runs.
    def distrust(self, reason: str, *, primal: bool) -> None: ...
    # Of the rule as its text stands now, which may have been changed.
    def rule_program(self) -> Program | None: ...
    # In float64, where the loops have run on; None if none of them seeks a limit.
    def limits(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Limits | None: ...
    # The same where an argument says of how many terms a result is added up.
    def limits_of_series(
        self, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> Limits | None: ...


class Runner(Shaped, Protocol):
    """A custom gradient in the framework's floats."""

    @property
    def modes(self) -> Sequence[str]: ...
    @property
    def kernels(self) -> Sequence[Kernel]: ...  # those that are interpreted here, once it is traced
    @property
    def stays_on_cpu(self) -> str: ...  # why, whatever device was asked for; else nothing
    def run(
        self,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        modes: Sequence[str] | None = None,
    ) -> Mapping[str, Floats]: ...
    # One row by itself, the way user code runs; of the value, the rule or autodiff.
    def run_row(
        self, point: Sequence[Array], cotangent: Sequence[Array], mode: str, who: str
    ) -> list[Array]: ...
    # The rule's values and gradient at very many numbers of one scalar argument, in their own dtype.
    def run_scalars(self, xs: Array, cotangents: Sequence[float]) -> list[Array]: ...
    def primal_values(self, points: Sequence[Array]) -> list[Array]: ...
    # Rows in which a loop that ends by `break` came to its last trip without.
    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array: ...
    # Of the rule as its text stands now, which may have been changed.
    def rule_gradients_unbatched(
        self, point: Sequence[Array], cotangent: Sequence[Array]
    ) -> list[Array]: ...
    # The rule called there, to be pulled back any number of times; None where each call is pulled back once.
    def rule_pullback(self, point: Sequence[Array]) -> Pullback | None: ...


class Variants(Shaped, Protocol):
    """Variants of a custom gradient: other ways to call it, other draws and dtypes, library functions."""

    def other_calls(self) -> Sequence[OtherCall]: ...
    def library_functions(self) -> Iterator[LibraryFunction]: ...
    # Its primal is free of the user's own rules if it is `bare`, where the framework knows how.
    def in_float64(self, *, bare: bool = True) -> Subject | None: ...
    # What the rule raises in another dtype that the function takes.
    def refusal(self, dtype: str) -> RuleError | None: ...
    # The rule's gradients here, the primal's values at the ends; None if it draws nothing.
    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None: ...


class Subject(Traced, Runner, Variants, Protocol):
    """A custom gradient at one signature and dtype."""


class CustomGradient(Protocol):
    """A function with a user-written derivative rule, or a plain function."""

    @property
    def name(self) -> str: ...
    @property
    def spelling(self) -> str: ...  # how user code calls it
    @property
    def kind(self) -> str: ...
    @property
    def place(self) -> Place: ...
    @property
    def framework(self) -> str: ...
    @property
    def backend(self) -> str: ...  # what runs it: the framework itself, but for Keras
    def parameters(self) -> Sequence[Parameter]: ...
    def against(self, reference: Callable[..., Any]) -> CustomGradient: ...  # another primal
    def rule_code(self) -> Sequence[FunctionType]: ...  # what the user wrote of the rule
    def fit(self, signature: Signature, dtype: str) -> Subject: ...


class Framework(Protocol):
    """One framework: how its gradients are found, and what their inputs may be."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def device(self) -> str: ...  # where its floats run: "cpu" or "gpu"
    @property
    def writing(self) -> ScriptStyle: ...
    def recording(self) -> AbstractContextManager[list[Found]]: ...
    def watching(self, note: Note) -> AbstractContextManager[None]: ...  # every call, noted
    # While gradients are judged: what a library draws is the same at every call.
    def steady(self) -> AbstractContextManager[None]: ...
    def find(
        self, module: ModuleType, path: str, recorded: list[Found], scopes: Sequence[str], own: Own
    ) -> tuple[Sequence[CustomGradient], Sequence[Missing]]: ...
    def named(
        self, module: ModuleType, name: str, path: str, own: Own
    ) -> CustomGradient | None: ...
    def hints(self, gradient: CustomGradient) -> Hints: ...
