"""Other calls that frameworks share: how one is made and named, and the ways common to eager frameworks.

A way gives the gradients of the other call and those that it must have; None where it says nothing.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

import numpy as np

from gradcheck_cli.contract.limits import SECOND_ORDER
from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.frameworks.shared.tracing import brief
from gradcheck_cli.inputs.signature import Leaf
from gradcheck_cli.subject.device import Placed
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong
from gradcheck_cli.subject.results import Array
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Numbers = Sequence[Array]
Result = tuple[Sequence[Array | None], Sequence[Array]] | None
Make = Callable[[Numbers, Numbers], Result]
Derivatives = tuple[Sequence[Array], Sequence[Array]]  # first and second
Tensor = TypeVar("Tensor")
Body = Callable[[Sequence[Tensor]], list[Tensor]]

IMPURE, CONTEXT, SECOND = (
    RuleName.IMPURE_RULE,
    RuleName.CONTEXT_DEPENDENT_GRADIENT,
    RuleName.WRONG_SECOND_DERIVATIVE,
)

# A second derivative is weighed with numbers that no two elements share.
WEIGHTS = (0.75, -1.25, 0.5, 1.5, -0.625)

# A call at other numbers that must not disturb the first: what a rule keeps is each call's own.
ELSEWHERE = 0.75
KEEP_IT = (
    "keep what the backward needs with the call itself: in the residuals, by `ctx.save_for_backward`, in the "
    "grad function's closure"
)


# -- how a way is made ------------------------------------------------------------------


class _RuleRaised(Exception):
    """The rule raised while the other call was made; the way's name is still to be added."""

    def __init__(self, rule: RuleName, severity: Severity, error: str) -> None:
        super().__init__(error)
        self.rule, self.severity, self.error = rule, severity, error


@contextmanager
def raising_counts(
    rule: RuleName = CONTEXT, severity: Severity = Severity.ERROR, who: str = "the rule"
) -> Iterator[None]:
    """User code that raises in here is a finding, as the plain call does not raise."""
    with user_error_counts(rule, severity, who), calling_user_code():
        yield


@contextmanager
def user_error_counts(
    rule: RuleName = CONTEXT, severity: Severity = Severity.ERROR, who: str = "the rule"
) -> Iterator[None]:
    """An error that is known to be the user code's own is a finding; nothing else is."""
    try:
        yield
    except UserCodeError as raised:
        raise _RuleRaised(rule, severity, f"{who} raises {brief(raised.error)}") from None


def named(way: OtherCall, subject: Placed) -> OtherCall:
    """A way whose findings begin with its name where its call raises; it runs where floats are measured."""

    def run(point: Numbers, cotangent: Numbers) -> Result:
        try:
            with subject.placed():
                return way.run(point, cotangent)
        except _RuleRaised as raised:
            raise WentWrong(raised.rule, raised.severity, raised.error, way.name) from None

    return replace(way, run=run)


def crossed(run: Make) -> OtherCall:
    """The way of a first call that goes backward after a second one was made: nothing may be shared."""
    return OtherCall("with another call in between", run, IMPURE, help=KEEP_IT)


def twice(run: Make, otherwise: str) -> OtherCall:
    """The rule differentiated again, beside the second derivative that is right."""
    says = f"{{}}, the rule gives {{}}, {otherwise} gives {{}}"
    return OtherCall("differentiated twice", run, SECOND, Severity.NOTE, says)


def second_beside(got: Derivatives | None, expected: Derivatives | None) -> Result:
    """Second derivatives, where the first ones agree."""
    if got is None or expected is None or not near(got[0], expected[0]):
        return None
    return got[1], expected[1]


# -- ways of eager frameworks -----------------------------------------------------------


class Recorded(Protocol):
    """A call that was made, and that can be pulled back."""

    def pull(self, cotangent: Numbers, only: int | None = None) -> list[Array]:
        """Gradients for each leaf, zeros where there are none; `only` one output is used."""
        ...


class EagerCalls(abc.ABC, Generic[Tensor]):
    """The ways that eager frameworks have in common, made of a few primitives."""

    def __init__(self, leaves: Sequence[Leaf]) -> None:
        self.leaves = leaves
        self._plain: dict[tuple[bytes, ...], list[Array]] = {}  # by the numbers of the call

    @abc.abstractmethod
    def rule(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The outputs that are judged, as user code gets them."""

    @abc.abstractmethod
    def primal(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        """The judged outputs of what the rule is to differentiate."""

    @abc.abstractmethod
    def call(
        self, point: Numbers, among: Callable[[list[Tensor]], list[Tensor]] = list
    ) -> Recorded:
        """The call as user code makes it; `among` changes the tensors that it is given."""

    @abc.abstractmethod
    def call_elsewhere(self, point: Numbers) -> None:
        """The call at other numbers."""

    @abc.abstractmethod
    def derivatives(
        self, body: Body[Tensor], point: Numbers, cotangent: Numbers
    ) -> Derivatives | None:
        """First and second derivatives; None if they are not to be had."""

    def plain(self, point: Numbers, cotangent: Numbers) -> list[Array]:
        """The gradients that every way is held to; one call of the same numbers is enough for all."""
        numbers = tuple(np.asarray(array).tobytes() for array in (*point, *cotangent))
        if numbers not in self._plain:
            self._plain[numbers] = self.call(point).pull(cotangent)
        return self._plain[numbers]

    def between(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients of a first call that goes backward after a second one was made."""
        plain = self.plain(point, cotangent)
        first = self.call(point)
        try:
            with calling_user_code():
                self.call_elsewhere(point)
        except UserCodeError:  # it takes no such numbers
            return None
        with raising_counts():
            return first.pull(cotangent), plain

    def one_for_two(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradient of f(z, z), in which both paths count."""
        pair = alike(self.leaves)
        assert pair is not None
        i, j = pair
        same = [point[i] if k == j else p for k, p in enumerate(point)]

        def shared(tensors: list[Tensor]) -> list[Tensor]:
            return [tensors[i] if k == j else x for k, x in enumerate(tensors)]

        with raising_counts():
            got = self.call(same, shared).pull(cotangent)
        return got, summed(self.plain(same, cotangent), pair)

    def of_output(self, number: int) -> OtherCall:
        """The way in which one output alone is used: the other cotangents are None, or zeros."""

        def run(point: Numbers, cotangent: Numbers) -> Result:
            zeros = [c if k == number else np.zeros_like(c) for k, c in enumerate(cotangent)]
            with raising_counts():
                got = self.call(point).pull(cotangent, number)
            return got, self.plain(point, zeros)

        return OtherCall(f"when only output {number} is used", run)

    def second(self, point: Numbers, cotangent: Numbers) -> Result:
        """The rule differentiated again, against autodiff twice through the primal.

        A rule that cannot be differentiated twice and says so is none of our business, nor is one
        whose first derivative is another already.
        """
        expected = self.derivatives(self.primal, point, cotangent)
        return second_beside(self.derivatives(self.rule, point, cotangent), expected)


# -- numbers ----------------------------------------------------------------------------


def shares(size: int) -> Array:
    """Weights of a line of so many elements."""
    return np.resize(WEIGHTS, size)


def near(some: Sequence[Array], others: Sequence[Array]) -> bool:
    """Do gradients agree in half of a float32's digits beside the largest element?"""
    return all(np.isfinite(b).all() for b in others) and all(
        np.allclose(
            a, b, rtol=0, atol=SECOND_ORDER.value * max(1e-30, float(np.abs(b).max(initial=0)))
        )
        for a, b in zip(some, others, strict=True)
    )


def alike(leaves: Sequence[Leaf]) -> tuple[int, int] | None:
    """Numbers of two arguments that one array can stand for; None if no two have one shape."""
    for j, leaf in enumerate(leaves):
        for i in range(j):
            if leaves[i].shape == leaf.shape:
                return i, j
    return None


def summed(gradients: Sequence[Array], pair: tuple[int, int]) -> list[Array]:
    """Gradients where one array stands for two arguments: their sum, in the place of the first."""
    i, j = pair
    both = [np.array(g) for g in gradients]
    both[i] = both[i] + both[j]
    both[j] = np.zeros_like(both[j])
    return both
