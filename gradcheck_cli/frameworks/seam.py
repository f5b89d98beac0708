"""The one seam between cgcheck and a framework. It is batched: a probe is a row.

A `CustomGradient` is what was found; fitted to a `Signature` it becomes a
`Subject`, which can be run in floats and walked over the reals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import FunctionType, ModuleType
from typing import Any, Protocol

import numpy as np

from gradcheck_cli.errors import CgcheckError
from gradcheck_cli.inputs.spec import Hints, Leaf, Parameter, Signature
from gradcheck_cli.reals.program import Program
from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.words import Severity

Array = np.ndarray[Any, Any]
Own = Callable[[str], bool]  # is this file the user's own?
# Hears of a call: what was called, its arguments, its keywords.
Note = Callable[[Any, tuple[Any, ...], dict[str, Any]], None]

# The two float programs of a framework that compiles (SEMANTICS A1), and the one of one that does not.
JIT, OP_BY_OP, EAGER = "jit", "op-by-op", "eager"
# Whose numbers: the value that the rule's forward gives, the rule's gradient, autodiff's.
VALUE, CUSTOM, AUTO = "value", "custom", "auto"


@dataclass(frozen=True, slots=True)
class Floats:
    """Results in the framework's floats for a batch of probes, in one mode.

    Each list holds one array per output (values) or per differentiable leaf
    (gradients), with the batch axis first. `custom` is None for a function
    without a rule, `auto` where autodiff does not go through the primal.
    """

    value: list[Array]
    rule_value: list[Array]
    custom: list[Array] | None
    auto: list[Array] | None
    refused: Array | None = None  # rows at which the function raised: outside its domain


@dataclass(frozen=True, slots=True)
class Traces:
    """The programs over the reals: (leaves…, cotangents…) → (values…, gradients…)."""

    primal: Program | None  # None where autodiff does not go through it
    rule: Program | None
    trusting: Program | None = None  # autodiff that takes the user's inner rules at their word
    reason: str | None = None  # why there is no program, where the framework knows


@dataclass(frozen=True, slots=True)
class Place:
    """Where something is defined."""

    path: str
    line: int
    qualname: str
    definition: str = ""  # the qualname of what made it, where it goes by another name


class Rejected(CgcheckError):
    """A signature that the function does not take: try another one."""


class Declined(Rejected):
    """The rule says of an argument that it is no tensor to differentiate: offer it as a number."""


class RuleError(CgcheckError):
    """The function runs, its derivative rule raises. That is a finding."""

    def __init__(
        self, stage: str, message: str, *, certain: bool = False, silent: bool = False
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.certain = certain  # wrong whatever the shapes: the number of gradients, say
        self.silent = silent  # it does not raise: we say that it is wrong


NO_GRAD_FUNCTION = "TypeError: it returns no grad function: write `return value, grad`"


@dataclass(frozen=True, slots=True)
class Spelled:
    """A derivative written as text: its program, and its floats for a batch of probes."""

    program: Program
    run: Callable[[Sequence[Array], Sequence[Array]], list[Array]]


@dataclass(frozen=True, slots=True)
class StandIn:
    """A stable library function that might be the primal, as one would write it.

    `spelled` gives the derivative's text as something that can be verified.
    """

    subject: Subject
    value: str
    gradient: str
    spelled: Callable[[], Spelled | None]


@dataclass(frozen=True, slots=True)
class Writing:
    """How a script in this framework is written.

    `array` makes one of {values} and {dtype}. `gradients` are lines that turn the function `call` and
    the lists `leaves` and `cotangents` into the lists `values` and `gradients`.
    """

    imports: tuple[str, ...]
    array: str
    gradients: tuple[str, ...]
    jitted: str = ""  # `run`, which holds these lines, compiled; nothing if it runs eagerly
    known: dict[str, str] = field(default_factory=dict)  # texts of fixed arguments, as code


@dataclass(frozen=True, slots=True)
class Sample:
    """Flat numbers of the components that are judged, for each output and each argument."""

    outputs: tuple[Array, ...]
    leaves: tuple[Array, ...]

    @property
    def size(self) -> int:
        return sum(map(len, (*self.outputs, *self.leaves)))


class Slip(CgcheckError):
    """What went wrong while a call was made in another way, and the rule that says so."""

    def __init__(self, rule: RuleName, severity: Severity, message: str) -> None:
        super().__init__(message)
        self.rule, self.severity, self.message = rule, severity, message


@dataclass(frozen=True, slots=True)
class Way:
    """Another way to make the same call: it gives gradients, and those it must give.

    None among them: not asked for. None alone: it says nothing here. `rule` and `severity` are of the
    finding if they differ.
    """

    name: str
    run: Callable[
        [Sequence[Array], Sequence[Array]], tuple[Sequence[Array | None], Sequence[Array]] | None
    ]
    rule: RuleName = RuleName.CONTEXT_DEPENDENT_GRADIENT
    severity: Severity = Severity.ERROR
    says: str = "{}, the gradient is {}, else it is {}"
    help: str | None = None  # if the rule's own does not fit


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
    def sample(self) -> Sample | None: ...  # if only some components are seen


class Traced(Shaped, Protocol):
    """A custom gradient as programs over the reals."""

    @property
    def differentiable(self) -> bool: ...  # does autodiff go through the primal?
    def traces(self) -> Traces: ...
    # Of the rule as its text stands now, which may have been changed.
    def rule_program(self) -> Program | None: ...


class Runner(Shaped, Protocol):
    """A custom gradient in the framework's floats."""

    @property
    def modes(self) -> Sequence[str]: ...
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
    # Of the rule as its text stands now, which may have been changed.
    def rule_gradients_unbatched(
        self, point: Sequence[Array], cotangent: Sequence[Array]
    ) -> list[Array]: ...


class Variants(Shaped, Protocol):
    """A custom gradient otherwise: called in other ways, with other draws, in other dtypes; library functions."""

    def other_calls(self) -> Sequence[Way]: ...
    def library_functions(self) -> Iterator[StandIn]: ...
    def in_float64(self) -> Subject | None: ...
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


@dataclass(frozen=True, slots=True)
class Missing:
    """A gradient that is there and cannot be checked, with the reason."""

    place: Place
    reason: str
    is_scope: bool = False  # an enclosing function that could not be entered


class Framework(Protocol):
    """One framework behind the seam: how its gradients are found, and what their inputs may be."""

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def device(self) -> str: ...  # where its floats run: "cpu" or "gpu"
    @property
    def writing(self) -> Writing: ...
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


@dataclass(slots=True)
class Found:
    """What a framework's hooks recorded: an object, and the line that made it."""

    thing: object
    kind: str
    path: str
    line: int
    extra: dict[str, object] = field(default_factory=dict)
