"""Other ways to make a TensorFlow call: in `tf.function`, in a version 1 graph, twice, in part.

Each gives gradients and those of the plain eager call with the same numbers.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.frameworks.shared.other_calls import (
    ELSEWHERE,
    Body,
    Derivatives,
    EagerCalls,
    Numbers,
    Result,
    alike,
    crossed,
    named,
    near,
    raising_counts,
    shares,
    twice,
    user_error_counts,
)
from gradcheck_cli.frameworks.tensorflow.call import host, taped, tensor, zeros_for_none
from gradcheck_cli.frameworks.tensorflow.gradient import REGISTERED
from gradcheck_cli.frameworks.tensorflow.subject import TfSubject
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.results import Array
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Tensors = Sequence[Any]

_OF_VERSION_1 = re.compile(r"\bv1\b|\bdisable_(?:v2|eager)|Session\(|\bGraph\(\)|\bplaceholder\(")
_COMPARES = re.compile(r"[!=]=")
_BESIDE = 0.375  # another place, at which no value is the same by accident


def other_calls(subject: TfSubject) -> list[OtherCall]:
    """The other calls that apply to this signature."""
    return [named(way, subject) for way in _all(subject)]


def _all(subject: TfSubject) -> list[OtherCall]:
    own = _Ways(subject)
    calls = [OtherCall("called again", own.again)]
    if subject.gradient.kind != REGISTERED:
        calls.append(crossed(own.between))
    if alike(subject.leaves) is not None and not subject.call.variables:
        calls.append(OtherCall("with one tensor for two arguments", own.one_for_two))
    if not subject.call.eager_only:
        calls.append(OtherCall("inside tf.function", own.in_function))
    if subject.gradient.kind == REGISTERED:
        return calls
    if not subject.call.variables and not subject.call.eager_only:
        severity = own.of_graphs(raises=False)
        calls.append(OtherCall("in a version 1 graph", own.in_graph, severity=severity))
    calls.append(twice(own.second, "the tape through the body"))
    if len(subject.outputs) > 1:
        calls += map(own.of_output, range(len(subject.outputs)))
    return calls


class _Ways(EagerCalls[Any]):
    def __init__(self, subject: TfSubject) -> None:
        super().__init__(subject.leaves)
        self.subject = subject

    # -- pieces -----------------------------------------------------------------------

    def rule(self, tensors: Tensors) -> list[Any]:
        return self.subject.call.judged(self.subject.call.outs(tensors))

    def primal(self, tensors: Tensors) -> list[Any]:
        return self.subject.call.judged(self.subject.call.primal_outputs(tensors))

    def call(self, point: Numbers, among: Callable[[list[Any]], list[Any]] = list) -> _Recorded:
        with self.subject.call.eagerly():
            leaves = self.subject.arguments_at(point)
            held = [*leaves, *self.subject.call.variables]
            with taped(held) as tape:
                outs = self.rule(among(leaves))
        return _Recorded(self.subject, tape, outs, held)

    def call_elsewhere(self, point: Numbers) -> None:
        with self.subject.call.eagerly():
            self.rule([ELSEWHERE * x for x in self.subject.arguments_at(point)])

    # -- the ways that only TensorFlow has ----------------------------------------------

    def again(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients of a first and of a second call with the same numbers."""
        before = self.plain(point, cotangent)
        return self.call(point).pull(cotangent), before

    def in_function(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients of a call that stands with its tape in one graph, as in a training step."""

        def step(leaves: Tensors, cts: Tensors) -> list[Any]:
            held = [*leaves, *self.subject.call.variables]
            with taped(held) as tape:
                outs = self.rule(leaves)
            return zeros_for_none(tape.gradient(outs, held, output_gradients=list(cts)), held)

        expected = self.plain(point, cotangent)
        with self.subject.call.eagerly():
            leaves, cts = self.subject.arguments_at(point), self.subject.cotangents(cotangent)
            try:
                with calling_user_code():
                    got = [host(g) for g in tf.function(step, autograph=False)(leaves, cts)]
            except UserCodeError:
                with self._blamed(leaves):
                    raise
        return got, expected

    def _blamed(self, leaves: Tensors) -> AbstractContextManager[None]:
        """An error in a graph counts where the function alone runs there; what runs eagerly only says so itself."""
        try:
            with calling_user_code():
                tf.function(self.primal, autograph=False)(leaves)
        except UserCodeError:
            return user_error_counts(severity=Severity.NOTE, who="the function itself")
        return user_error_counts()

    def in_graph(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients by version 1: placeholders, `tf.gradients`, a session.

        None where the function itself raises there or has another value, so that it is not meant for such
        graphs: `labels != -1` compares no numbers in them.
        """
        v1 = tf.compat.v1
        expected = self.plain(point, cotangent)
        places = [point, [_BESIDE + p for p in point]]
        values = [self.subject.primal_row(place) for place in places]
        raising = raising_counts(severity=self.of_graphs(raises=True))
        with raising, tf.Graph().as_default(), self.subject.gradient.draws.drawing():
            held = [v1.placeholder(self.subject.call.dtype, p.shape) for p in point]
            kinds = zip(self.subject.output_dtypes, cotangent, strict=True)
            if not self._runs(held):
                return None
            outs = self.rule(held)
            cts = [v1.placeholder(name, np.shape(c)) for name, c in kinds]
            with v1.Session() as session:
                there = [session.run(outs, dict(zip(held, p, strict=True))) for p in places]
                if not all(map(_same_values, there, values)):
                    return None
                asked = zeros_for_none(v1.gradients(outs, held, grad_ys=cts), held)
                numbers = dict(zip((*held, *cts), (*point, *cotangent), strict=True))
                gradients = session.run(asked, numbers)
        return [np.asarray(g, np.float64) for g in gradients], expected

    def of_graphs(self, *, raises: bool) -> Severity:
        """How grave it is where the rule goes wrong in such graphs alone, which few make: `==` compares no numbers in them."""
        text = "".join(linecache.getlines(self.subject.gradient.place.path))
        meant = _OF_VERSION_1.search(text) or not (raises or _COMPARES.search(text))
        return Severity.ERROR if meant else Severity.NOTE

    def _runs(self, held: Tensors) -> bool:
        """Does the function without its rule take these tensors?"""
        try:
            with calling_user_code():
                self.primal(held)
        except UserCodeError:
            return False
        return True

    def derivatives(
        self, body: Body[Any], point: Numbers, cotangent: Numbers
    ) -> Derivatives | None:
        """First and second derivatives by a tape on a tape; None if the call raises."""
        try:
            with self.subject.call.eagerly(), calling_user_code():
                leaves = self.subject.arguments_at(point)
                held = [*leaves, *self.subject.call.variables]
                with taped(held) as outer:
                    with taped(held) as tape:
                        outs = body(leaves)
                    weights = self.subject.cotangents(cotangent)
                    first = tape.gradient(outs, held, output_gradients=weights)
                    total = tf.add_n([_weighed(g) for g in first if g is not None])
                return _host(first, held), _host(outer.gradient(total, held), held)
        except UserCodeError:
            return None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Outputs of one call on their tape, and the leaves that it is pulled back to."""

    subject: TfSubject
    tape: Any
    outs: Tensors
    held: Tensors

    def pull(self, cotangent: Numbers, only: int | None = None) -> list[Array]:
        with self.subject.call.eagerly():
            weights = self.subject.cotangents(cotangent)
            which = slice(None) if only is None else slice(only, only + 1)
            gradients = self.tape.gradient(self.outs[which], self.held, weights[which])
            return _host(gradients, self.held)


def _same_values(some: Sequence[Any], others: Sequence[Array]) -> bool:
    """Are these the same numbers, up to half of a float32's digits?"""
    arrays = [np.asarray(a, np.float64) for a in some]
    return [a.shape for a in arrays] == [b.shape for b in others] and near(arrays, others)


def _host(gradients: Sequence[Any], held: Tensors) -> list[Array]:
    return [
        np.zeros(tuple(x.shape)) if g is None else host(g)
        for g, x in zip(gradients, held, strict=True)
    ]


def _weighed(gradient: Any) -> Any:
    flat = tf.reshape(tf.convert_to_tensor(gradient), [-1])
    return tf.reduce_sum(flat * tensor(shares(flat.shape[0]), flat.dtype))
