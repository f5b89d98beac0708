"""A TensorFlow gradient put together with a signature: a subject that has other calls and other dtypes."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import tensorflow as tf

from gradcheck_cli.frameworks.shared.plain_points import other_turn
from gradcheck_cli.frameworks.shared.tracing import refused
from gradcheck_cli.frameworks.tensorflow.call import VARIABLES, Call, flat, tensor
from gradcheck_cli.frameworks.tensorflow.gradient import CUSTOM, REGISTERED, TfGradient
from gradcheck_cli.frameworks.tensorflow.other_calls import other_calls
from gradcheck_cli.frameworks.tensorflow.private_api import record
from gradcheck_cli.frameworks.tensorflow.subject import TfSubject
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Signature
from gradcheck_cli.subject.other_calls import OtherCall
from gradcheck_cli.subject.refusals import TO_THE_END, Rejected, RuleError
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


def fit(gradient: TfGradient, signature: Signature, dtype: str, turn: int = 0) -> FittedTf:
    """Run it at a plain point; `Rejected` if the function refuses it."""
    if not signature.leaves:
        raise Rejected("no differentiable argument")
    kind = tf.dtypes.as_dtype(dtype)
    call = Call(gradient, signature, kind, turn)
    try:
        with call.eagerly(), record.VariableWatcher() as watcher, calling_user_code():
            points = [tensor(call.plain(leaf), kind) for leaf in call.own_leaves]
            outs = (
                call.graphed(points) if gradient.kind == REGISTERED else call.primal_outputs(points)
            )
    except UserCodeError as raised:
        other = other_turn(raised.error, turn)
        if other is not None:
            return fit(gradient, signature, dtype, other)
        _ask_a_graph(call, signature)
        raise refused(raised.error, gradient) from None
    call.kept = tuple(i for i, out in enumerate(outs) if _has_a_gradient(out))
    if not call.kept:
        raise Rejected("it returns no float tensor that can be differentiated", progress=TO_THE_END)
    floats = call.judged(outs)
    call.variables = _trainable(watcher.watched_variables())
    given = _gradients_given(call, points)
    defaults = _with_defaults(gradient, call, given)
    if defaults is not None:
        return fit(gradient, defaults, dtype, turn)
    call.by_name = _by_name(call, given)
    call.signature = signature = _with_variables(signature, call.variables)
    return FittedTf(
        signature=signature, dtype=dtype, gradient=gradient, call=call,
        has_rule=gradient.has_rule,
        outputs=[tuple(out.shape) for out in floats],
        output_dtypes=[out.dtype.name for out in floats],
    )  # fmt: skip


@dataclass(slots=True, kw_only=True)
class FittedTf(TfSubject):
    """A TensorFlow gradient at one signature, with its other calls and dtypes."""

    def in_dtype(self, dtype: str) -> FittedTf:
        return fit(self.gradient, self.signature, dtype)

    def other_calls(self) -> Sequence[OtherCall]:
        return other_calls(self)


def _has_a_gradient(out: Any) -> bool:
    return bool(tf.is_tensor(out) and (out.dtype.is_floating or out.dtype.is_complex))


def _gradients_given(call: Call, points: Sequence[Any]) -> int | None:
    """How many gradients the rule gives, where the call has arguments that it may mean or not; None if it raises."""
    plain = any(value is OMITTED or _is_plain(value) for _, value in call.inputs)
    if call.gradient.kind != CUSTOM or not plain:
        return None
    try:
        with call.eagerly(), calling_user_code():
            outs, pull = call.split(points)
            ones = [tf.ones_like(out) for out in call.judged(outs)]
            return len(call.gradients(outs, pull, ones)) if pull is not None else 0
    except UserCodeError:
        return None  # the rule's own fault, told where it is judged


def _wanted(call: Call) -> int:
    """How many gradients TensorFlow wants of such a call."""
    return sum(len(flat(value)) for _, value in call.by_place) + len(call.variables)


def _with_defaults(gradient: TfGradient, call: Call, given: int | None) -> Signature | None:
    """The call with as many defaults handed over as the rule has gradients more; None where it has none.

    What is left out is no input for TensorFlow: a rule that returns `dx, None, None` is called with all three.
    """
    parameters = {p.name: p for p in gradient.parameters()}
    behind = itertools.islice(call.inputs, len(call.by_place), None)
    left_out = itertools.takewhile(lambda pair: pair[1] is OMITTED, behind)
    names = [n for n, _ in left_out if n in parameters and n not in call.signature.keywords]
    more = 0 if given is None else given - _wanted(call)
    defaults = [parameters[name].default for name in names[: max(more, 0)]]
    if not 0 < more <= len(names) or not all(isinstance(d, int | float) for d in defaults):
        return None
    changed = call.signature
    for name, default in zip(names, defaults, strict=False):
        fixed = Fixed(default, repr(default), "its default, for which the rule has a gradient")
        changed = changed.with_argument(name, fixed)
    return changed


def _by_name(call: Call, given: int | None) -> frozenset[str]:
    """The last arguments, where they are plain and the rule gives them no gradient.

    By their place TensorFlow would make tensors of them, and want gradients.
    """
    plain_ones = itertools.takewhile(lambda pair: _is_plain(pair[1]), reversed(call.by_place))
    names = [name for name, _ in plain_ones]
    missing = names and given is not None and given == _wanted(call) - len(names)
    return frozenset(names) if missing else frozenset()


def _is_plain(value: Any) -> bool:
    """A number, a word, a flag: not what TensorFlow users hold in tensors."""
    return isinstance(value, Fixed) and isinstance(value.value, int | float | str)


def _ask_a_graph(call: Call, signature: Signature) -> None:
    """`RuleError` if it is version 1 code whose variable is no resource, which the rule needs."""
    v1 = tf.compat.v1
    try:
        with tf.Graph().as_default(), calling_user_code():
            call.outs([v1.placeholder(call.dtype, leaf.shape) for leaf in signature.leaves])
    except UserCodeError as raised:
        if isinstance(raised.error, TypeError) and "ResourceVariable" in str(raised.error):
            message = (
                "TypeError: it uses a variable that is no resource, which tf.custom_gradient "
                "refuses: `use_resource=True` in its variable scope"
            )
            raise RuleError("TypeError", message, certain=True) from None


def _trainable(watched: Sequence[Any]) -> tuple[Any, ...]:
    floats = [v for v in watched if v.trainable and v.dtype.is_floating]
    return tuple(sorted(floats, key=lambda v: str(v.name)))


def _with_variables(signature: Signature, variables: Sequence[Any]) -> Signature:
    arguments = tuple(pair for pair in signature.arguments if pair[0] != VARIABLES)
    leaves = tuple(
        Leaf(v.name.partition(":")[0], tuple(v.shape), "a variable that it uses") for v in variables
    )
    return replace(signature, arguments=(*arguments, *([(VARIABLES, leaves)] if leaves else [])))
