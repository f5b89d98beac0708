"""From TensorFlow to jaxprs: a function is made a graph, and tf2jax evaluates its nodes under JAX.

Each node remembers the line of user code that made it, so a lost digit can be blamed on it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import jax
import tensorflow as tf

from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.tensorflow.ops import complete
from gradcheck_cli.frameworks.tensorflow.private_api import (
    ops,
    source_info_util,
    tf2jax_evaluator,
    tf2jax_operations,
    xla_client,
)
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

INSTALL = "pip install tf2jax==0.3.8"


@functools.cache
def _tf2jax() -> Any:
    try:
        with calling_user_code():
            import tf2jax

            inner = tf2jax_evaluator()
            complete(tf2jax_operations()._jax_ops)
    except UserCodeError as raised:
        error = raised.error
        if isinstance(error, ImportError):
            reason = f"TensorFlow is traced by tf2jax, which is not installed: {INSTALL}"
        else:
            reason = (
                f"tf2jax does not fit this TensorFlow ({tf.__version__}): {type(error).__name__}: "
                f"{error}; try {INSTALL}"
            )
        raise Untraceable(reason) from None
    return tf2jax, inner


def traced(
    function: Callable[..., Any],
    avals: Sequence[Any],
    variables: Sequence[Any] = (),
    *,
    inner_rules: bool = True,
) -> Any:
    """The closed jaxpr of a function of tensors; what it reads from `variables` comes last.

    `inner_rules`: custom gradients that the graph holds keep their rules.
    """
    tf2jax, inner = _tf2jax()
    with ExitStack() as stack:
        lines = stack.enter_context(_lines())
        stack.enter_context(tf2jax.override_config("convert_custom_gradient", inner_rules))
        stack.enter_context(tf2jax.override_config("raise_on_prevent_gradient", False))
        stack.enter_context(_located(inner, lines))
        stack.enter_context(_ends_told_once(inner))
        specs = [tf.TensorSpec(a.shape, tf.dtypes.as_dtype(a.dtype)) for a in avals]
        graph = tf.function(function, autograph=False)
        with calling_user_code():
            converted, params = tf2jax.convert(graph, *specs)
        names = _named(params, variables)
        shapes = [jax.ShapeDtypeStruct(v.shape, v.dtype.as_numpy_dtype) for v in variables]

        def run(*arrays: Any) -> Any:
            read = zip(names, arrays[len(avals) :], strict=True)
            parameters = {**params, **{name: array for name, array in read if name is not None}}
            outs, _ = converted(parameters, *arrays[: len(avals)])
            return outs

        with calling_user_code():
            return jax.make_jaxpr(run)(*avals, *shapes)


def _named(params: Any, variables: Sequence[Any]) -> list[str | None]:
    """The parameter that each variable became; None for one that the graph does not read."""
    left = dict(params)
    names: list[str | None] = []
    for variable in variables:
        name = next((k for k, p in left.items() if p.name == variable.name), None)
        if name is not None:
            del left[name]
        names.append(name)
    return names


@contextmanager
def _lines() -> Iterator[dict[str, Any]]:
    """While active, the Python stack of every operation that a graph gets is kept by its name."""
    create = ops.Graph._create_op_internal
    kept: dict[str, Any] = {}

    def noted(self: Any, *args: Any, **kwargs: Any) -> Any:
        operation = create(self, *args, **kwargs)
        kept[operation.name] = xla_client.Traceback.get_traceback()
        return operation

    ops.Graph._create_op_internal = noted
    try:
        yield kept
    finally:
        ops.Graph._create_op_internal = create


@contextmanager
def _located(inner: Any, lines: dict[str, Any]) -> Iterator[None]:
    """While active, what JAX traces for a node carries the node's own stack."""
    call = inner._OpNode.__call__

    def located(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.name not in lines:
            return call(self, *args, **kwargs)
        with source_info_util.user_context(lines[self.name]):
            return call(self, *args, **kwargs)

    inner._OpNode.__call__ = located
    try:
        yield
    finally:
        inner._OpNode.__call__ = call


@contextmanager
def _ends_told_once(inner: Any) -> Iterator[None]:
    """While active, the ends that a node leads to are looked for once each.

    tf2jax lists one for each way there is: in an unrolled loop these double at every trip.
    """
    original = inner._get_consumers_and_producers_fns

    def functions(nodes: Any) -> Any:
        readers: dict[str, list[str]] = {node.name: [] for node in nodes}
        for node in nodes:
            for read in node.inputs:
                readers[read.op_name].append(node.name)
        sources = {node.name: [read.op_name for read in node.inputs] for node in nodes}

        def ends(name: str) -> list[str]:
            return [each for each in _reached(name, readers) if not readers[each]]

        return ends, lambda name: set(_reached(name, sources))

    inner._get_consumers_and_producers_fns = functions
    try:
        yield
    finally:
        inner._get_consumers_and_producers_fns = original


def _reached(name: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """All that is reached from a node, itself included, each once."""
    reached, left = {name: None}, [name]
    while left:
        new = [each for each in edges[left.pop()] if each not in reached]
        reached.update(dict.fromkeys(new))
        left += new
    return list(reached)
