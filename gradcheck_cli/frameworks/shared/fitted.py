"""A custom gradient fitted to a signature: what a framework that is compiled and one that runs eagerly share.

How it is traced and how it is run in floats differ; what follows from a trace does not.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from gradcheck_cli.frameworks.shared.counted import limits_of_series
from gradcheck_cli.frameworks.shared.library import Offering, offered
from gradcheck_cli.frameworks.shared.run_on import Iteration, may_iterate
from gradcheck_cli.frameworks.shared.tracing import (
    POINTWISE,
    Untraceable,
    lacks_a_kernel,
    precision,
)
from gradcheck_cli.inputs.signature import Leaf, Signature
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.protocol import LibraryFunction
from gradcheck_cli.subject.refusals import Rejected, RuleError
from gradcheck_cli.subject.results import Array, Kernel, Limits, Sample, Spelled, Traces
from gradcheck_cli.subject.user_code import UserCodeError

# A derivative given as text, at a whole batch of points and cotangents.
Batched = Callable[[Sequence[Array], Sequence[Array]], list[Array]]


@dataclass(slots=True, kw_only=True)
class FittedGradient(abc.ABC):
    """A gradient at one signature and dtype; `has_auto`, `elementwise` and `kernels` hold once it is traced."""

    gradient: Offering
    signature: Signature
    dtype: str
    has_auto: bool = True
    elementwise: bool = False
    kernels: Sequence[Kernel] = ()
    _traces: Traces | None = None
    _iteration: Iteration | None = None

    @abc.abstractmethod
    def trace(self) -> Traces:
        """Both programs, anew; `RuleError` if the rule fails, `Rejected` if the function does."""

    @abc.abstractmethod
    def trace_rule(self) -> Any:
        """The jaxpr (leaves, cotangents) → (values, gradients) of the rule as its text stands now."""

    @abc.abstractmethod
    def demand_rule(self) -> None:
        """`RuleError` if the rule fails at this signature and dtype."""

    @abc.abstractmethod
    def written(self, names: Sequence[str], text: str) -> tuple[Any, Batched]:
        """A derivative given as text: its jaxpr, and its numbers."""

    @abc.abstractmethod
    def in_dtype(self, dtype: str) -> Self:
        """A subject for this call in another dtype; `Rejected` if the function does not take that."""

    @abc.abstractmethod
    def other_calls(self) -> Sequence[OtherCall]:
        """Other ways to make the call."""

    @property
    def stays_on_cpu(self) -> str:
        """Why it is measured on the CPU whatever device was asked for; nothing if it is not."""
        return ""

    @abc.abstractmethod
    def placed(self) -> AbstractContextManager[None]:
        """While active, floats are those of the device that was asked for."""

    def reads_beyond(self) -> str:
        """How the function silently reads beyond the end of an array; nothing where that raises."""
        return ""

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """Rows in which a loop that ends by `break` came to its last trip; traced loops are known otherwise."""
        return np.zeros(len(points[0]), bool)

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self.signature.leaves

    @property
    def defaults(self) -> Mapping[str, object]:
        return {p.name: p.default for p in self.gradient.parameters()}

    @property
    def sample(self) -> Sample | None:
        return None

    @abc.abstractmethod
    def iteration(self) -> Iteration | None:
        """Function and rule as float64 traces; None where there are none."""

    def limits(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Limits | None:
        """What function and rule give where their loops have run on; None if none of them seeks a limit."""
        if not may_iterate(self.traces().primal):
            return None
        self._iteration = self._iteration or self.iteration()
        return None if self._iteration is None else self._iteration.limits(points, cotangents)

    def limits_of_series(
        self, points: Sequence[Array], cotangents: Sequence[Array]
    ) -> Limits | None:
        """What function and rule give where their series have gone on; None if nothing counts terms."""
        return limits_of_series(self, points, cotangents)

    def traces(self) -> Traces:
        """Both programs, traced once."""
        if self._traces is None:
            with precision(self.dtype):
                self._traces = self.trace()
        return self._traces

    def distrust(self, reason: str, *, primal: bool) -> None:
        """Forget the rule's program, or both: what runs gives other numbers."""
        forward = None if primal else self.traces().primal
        self._traces = Traces(forward, None, reason=reason)

    def runs_elementwise(self, *programs: Program | None) -> bool:
        """Do these take each element by itself, so that a batch of numbers may go in as one array?"""
        names = frozenset[str]().union(*(p.primitives() for p in programs if p is not None))
        return names <= POINTWISE and all(not leaf.shape for leaf in self.leaves)

    def rule_program(self) -> Program | None:
        """The rule's program anew, as its text may have been changed; None if it cannot be traced."""
        try:
            with precision(self.dtype):
                jaxpr = self.trace_rule()
        except (RuleError, UserCodeError, Untraceable):
            return None
        return program_of(jaxpr)

    def refusal(self, dtype: str) -> RuleError | None:
        """What the rule raises in another dtype that the function takes; nothing is compiled for it."""
        try:
            with precision(dtype):
                self.in_dtype(dtype).demand_rule()
        except RuleError as error:
            return None if lacks_a_kernel(error.message) else error
        except Rejected:
            return None
        return None

    def library_functions(self) -> Iterator[LibraryFunction]:
        """Stable library functions at this signature, spelled for its arguments."""
        return offered(self.gradient, self.leaves, self.dtype, self._spelled)

    def _spelled(self, text: str) -> Spelled | None:
        """A derivative written as text: (leaves…, cotangents…) → (gradients…)."""
        names = [leaf.path for leaf in self.leaves]
        if not all(name.isidentifier() for name in names):
            return None
        try:
            with precision(self.dtype):
                jaxpr, batched = self.written(names, text)
        except (UserCodeError, Untraceable, SyntaxError):  # it does not fit these arguments
            return None
        return Spelled(program_of(jaxpr), self._on_the_device(batched))

    def _on_the_device(self, batched: Batched) -> Batched:
        def run(points: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
            with self.placed():
                return batched(points, cotangents)

        return run
