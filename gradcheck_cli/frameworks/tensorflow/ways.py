"""Other ways to make a TensorFlow call: in `tf.function`, in a version 1 graph, twice, in part.

Each gives gradients and those of the plain eager call with the same numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from gradcheck_cli.frameworks.compared import (
    BETWEEN,
    ELSEWHERE,
    KEEP_IT,
    alike,
    near,
    shares,
    summed,
)
from gradcheck_cli.frameworks.seam import Slip, Way
from gradcheck_cli.frameworks.tensorflow.call import host, tensor
from gradcheck_cli.frameworks.tensorflow.draws import drawing
from gradcheck_cli.frameworks.tensorflow.hooks import REGISTERED
from gradcheck_cli.frameworks.tracing import brief
from gradcheck_cli.words import Severity

if TYPE_CHECKING:
    from gradcheck_cli.frameworks.tensorflow.subject import TfSubject

Array = np.ndarray[Any, Any]
Numbers = Sequence[Array]
Result = tuple[Sequence[Array | None], Sequence[Array]]

IMPURE, CONTEXT, SECOND = "impure-rule", "context-dependent-gradient", "wrong-second-derivative"
_TWICE = "{}, the rule gives {}, the tape through the body gives {}"


def ways(subject: TfSubject) -> list[Way]:
    """Those that apply to this signature."""
    own = _Ways(subject)
    found = [Way("called again", own.again)]
    if subject.gradient.kind != REGISTERED:
        found.append(Way(BETWEEN, own.between, IMPURE, help=KEEP_IT))
    if alike(subject.leaves) is not None and not subject.call.variables:
        found.append(Way("with one tensor for two arguments", own.one_for_two))
    if not subject.signature.keywords:  # TensorFlow takes those eagerly only
        found.append(Way("inside tf.function", own.in_function))
    if subject.gradient.kind == REGISTERED:
        return found
    if not subject.call.variables and not subject.signature.keywords:
        found.append(Way("in a version 1 graph", own.in_graph))
    found.append(Way("differentiated twice", own.second, SECOND, Severity.NOTE, _TWICE))
    if len(subject.outputs) > 1:
        found += [
            Way(f"when only output {k} is used", own.of_output(k))
            for k in range(len(subject.outputs))
        ]
    return found


class _Ways:
    def __init__(self, subject: TfSubject) -> None:
        self.subject, self.call = subject, subject.call

    def plain(self, point: Numbers, cotangent: Numbers) -> list[Array]:
        _, found = self.subject.pulled(self.call.outs, point, cotangent)
        return _zeroed(found, point)

    def other(
        self, name: str, make: Callable[[], Sequence[Array | None]]
    ) -> Sequence[Array | None]:
        """The other way; raising there is a slip of its own."""
        try:
            return make()
        except Exception as error:
            told = f"{name}, the rule raises {brief(error)}"
            raise Slip(CONTEXT, Severity.ERROR, told) from None

    def in_function(self, point: Numbers, cotangent: Numbers) -> Result:
        """As a training step has it: call, tape and gradient in one graph."""

        def step(leaves: Sequence[Any], cts: Sequence[Any]) -> list[Any]:
            held = [*leaves, *self.call.variables]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                for x in held:
                    tape.watch(x)
                outs = self.call.judged(self.call.outs(leaves))
            found = tape.gradient(outs, held, output_gradients=list(cts))
            return [
                tf.zeros_like(x) if g is None else tf.convert_to_tensor(g)
                for g, x in zip(found, held, strict=True)
            ]

        def made() -> list[Array]:
            with self.call.eagerly():
                given, cts = self.subject.given(point), self.subject.cotangents(cotangent)
                return [host(g) for g in tf.function(step, autograph=False)(given, cts)]

        expected = self.plain(point, cotangent)
        return self.other("inside tf.function", made), expected

    def in_graph(self, point: Numbers, cotangent: Numbers) -> Result:
        """As version 1 has it: placeholders, `tf.gradients`, a session."""
        v1 = tf.compat.v1

        def made() -> list[Array]:
            with tf.Graph().as_default(), drawing():
                held = [v1.placeholder(self.call.dtype, p.shape) for p in point]
                outs = self.call.judged(self.call.outs(held))
                cts = [
                    v1.placeholder(name, np.shape(c))
                    for c, name in zip(cotangent, self.subject.output_dtypes, strict=True)
                ]
                found = v1.gradients(outs, held, grad_ys=cts)
                asked = [tf.zeros_like(x) if g is None else tf.convert_to_tensor(g) for g, x in zip(found, held, strict=True)]  # fmt: skip
                with v1.Session() as session:
                    values = session.run(
                        asked, dict(zip((*held, *cts), (*point, *cotangent), strict=True))
                    )
            return [np.asarray(v, np.float64) for v in values]

        expected = self.plain(point, cotangent)
        return self.other("in a version 1 graph", made), expected

    def one_for_two(self, point: Numbers, cotangent: Numbers) -> Result:
        """f(z, z): both paths count."""
        pair = alike(self.subject.leaves)
        assert pair is not None
        i, j = pair
        same = [point[i] if k == j else p for k, p in enumerate(point)]

        def shared(leaves: Sequence[Any]) -> list[Any]:
            return self.call.outs([leaves[i] if k == j else x for k, x in enumerate(leaves)])

        def made() -> list[Array]:
            return _zeroed(self.subject.pulled(shared, same, cotangent)[1], same)

        name = "with one tensor for two arguments"
        return self.other(name, made), summed(self.plain(same, cotangent), pair)

    def again(self, point: Numbers, cotangent: Numbers) -> Result:
        return self.plain(point, cotangent), self.plain(point, cotangent)

    def between(self, point: Numbers, cotangent: Numbers) -> Result:
        """Two calls, and the first is pulled back last: what is kept between must be its own."""
        plain = self.plain(point, cotangent)
        with self.call.eagerly():
            leaves = self.subject.given(point)
            held = [*leaves, *self.call.variables]
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                for x in held:
                    tape.watch(x)
                outs = self.call.judged(self.call.outs(leaves))
            try:
                self.call.outs([ELSEWHERE * x for x in leaves])
            except Exception:  # it takes no such numbers
                return [None] * len(point), plain
            weights = self.subject.cotangents(cotangent)
            found = self.other(BETWEEN, lambda: tape.gradient(outs, held, output_gradients=weights))
            hosted = [None if g is None else host(g) for g in found]
        return _zeroed(hosted, point), plain

    def of_output(self, number: int) -> Callable[[Numbers, Numbers], Result]:
        """One output alone is used: the others' cotangents are zeros."""

        def run(point: Numbers, cotangent: Numbers) -> Result:
            zeros = [c if k == number else np.zeros_like(c) for k, c in enumerate(cotangent)]

            def alone() -> list[Array]:
                with self.call.eagerly():
                    leaves = self.subject.given(point)
                    held = [*leaves, *self.call.variables]
                    with tf.GradientTape(watch_accessed_variables=False) as tape:
                        for x in held:
                            tape.watch(x)
                        out = self.call.judged(self.call.outs(leaves))[number]
                    weight = self.subject.cotangents(cotangent)[number]
                    found = tape.gradient(out, held, output_gradients=weight)
                    return _zeroed([None if g is None else host(g) for g in found], point)

            name = f"when only output {number} is used"
            return self.other(name, alone), self.plain(point, zeros)

        return run

    def second(self, point: Numbers, cotangent: Numbers) -> Result:
        """The rule differentiated again, against the tape twice through the body."""
        nothing: Result = [None] * len(point), [np.zeros(np.shape(p)) for p in point]
        expected = self._second(self.call.meant, point, cotangent)
        got = self._second(self.call.outs, point, cotangent)
        if expected is None or got is None or not near(got[0], expected[0]):
            return nothing
        return got[1], expected[1]

    def _second(
        self, function: Callable[[Sequence[Any]], list[Any]], point: Numbers, cotangent: Numbers
    ) -> tuple[list[Array], list[Array]] | None:
        """First and second derivatives; None if it raises."""
        try:
            with self.call.eagerly():
                leaves = self.subject.given(point)
                held = [*leaves, *self.call.variables]
                with tf.GradientTape(watch_accessed_variables=False) as outer:
                    for x in held:
                        outer.watch(x)
                    with tf.GradientTape(watch_accessed_variables=False) as tape:
                        for x in held:
                            tape.watch(x)
                        outs = self.call.judged(function(leaves))
                    given = self.subject.cotangents(cotangent)
                    first = tape.gradient(outs, held, output_gradients=given)
                    total = tf.add_n([_weighed(g) for g in first if g is not None])
                found = outer.gradient(total, held)
                return tuple(
                    _zeroed([None if g is None else host(g) for g in grads], point)
                    for grads in (first, found)
                )  # type: ignore[return-value]
        except Exception:
            return None


def _zeroed(found: Sequence[Array | None], point: Numbers) -> list[Array]:
    return [np.zeros(np.shape(p)) if g is None else g for g, p in zip(found, point, strict=True)]


def _weighed(gradient: Any) -> Any:
    flat = tf.reshape(tf.convert_to_tensor(gradient), [-1])
    return tf.reduce_sum(flat * tensor(shares(flat.shape[0]), flat.dtype))
