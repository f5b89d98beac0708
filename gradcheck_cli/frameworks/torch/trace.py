"""From torch to jaxprs: user code runs on torchax's tensors while JAX traces.

torchax 0.0.13 asks torch for overloads of named tensors that torch 2.13 no longer has; while it
is imported, and only then, an overload that is not there is looked up in vain without an error.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from typing import Any

import jax
import torch

from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.torch.bridge.detached import unnoticed
from gradcheck_cli.frameworks.torch.bridge.mended import mend
from gradcheck_cli.frameworks.torch.bridge.native_ops import constant, operation
from gradcheck_cli.frameworks.torch.bridge.numpy_arrays import taking_numbers
from gradcheck_cli.frameworks.torch.bridge.traced_device import NAME, keeping_its_name, say_where
from gradcheck_cli.frameworks.torch.gradient import Surroundings
from gradcheck_cli.frameworks.torch.private_api import (
    DisableTorchFunction,
    OpOverloadPacket,
    no_dispatch,
    tree_map_only,
)
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

INSTALL = "pip install torchax==0.0.13"


# Is what is cut out of a table that was there a tensor of the trace? Then what is computed can be written into it,
# and it cannot be written into what is torch's own.
_PARTS_ARE_NEW: ContextVar[bool] = ContextVar("parts_are_new", default=False)


@functools.cache
def _environment() -> Any:
    try:
        with calling_user_code(), _tolerant(), keeping_its_name():
            import torchax
            from torchax.tensor import Tensor
            from torchax.view import View

            say_where(Tensor, View)
            environment = torchax.default_env()
            _take_plain_tensors(environment)
            _ask_for_types(environment)
            _without_dynamo(environment)
            _write_in_place(environment)
            _fill_what_is_empty(environment)
            _copy_without_history(environment)
            _count_axes_from_the_front(environment)
            mend(environment, Tensor, View)
            return environment
    except UserCodeError as raised:
        error = raised.error
        if isinstance(error, ImportError):
            reason = f"PyTorch is traced by torchax, which is not installed: {INSTALL}"
        else:
            reason = (
                f"torchax does not fit this torch ({torch.__version__}): {type(error).__name__}: "
                f"{error}; try {INSTALL}"
            )
        raise Untraceable(reason) from None


def _take_plain_tensors(environment: Any) -> None:
    """Tensors that were there before (labels, weights, tables) are constants of the trace."""
    from torchax.tensor import Tensor
    from torchax.view import View

    unwrapped, viewed, dispatch = environment.t2j_iso, environment.v2t_iso, environment.dispatch

    def adopted(value: Any) -> Any:
        if is_new(value):
            return value
        return Tensor(environment.t2j_copy(value.detach().cpu()), environment)

    def is_new(value: Any) -> bool:
        return isinstance(value, (Tensor, View))

    def places(index: Any) -> Sequence[Any]:
        return index if isinstance(index, tuple | list) else [index]

    def all_adopted(tree: Any) -> Any:
        return tree_map_only(torch.Tensor, adopted, tree)

    def indexing(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) == "__getitem__" and (
            _PARTS_ARE_NEW.get() or any(map(is_new, places(args[1])))
        ):
            args = (all_adopted(args[0]), *args[1:])  # of a table that was there
        return dispatch(func, types, args, kwargs)

    environment.t2j_iso = lambda tree: unwrapped(all_adopted(tree))
    environment.v2t_iso = lambda tree: all_adopted(viewed(tree))
    environment.dispatch = indexing


def _ask_for_types(environment: Any) -> None:
    """What type numbers of two types have together, torch itself says: no operation on numbers."""
    dispatch = environment.dispatch

    def asked(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) not in ("promote_types", "result_type", "can_cast"):
            return dispatch(func, types, args, kwargs)
        with no_dispatch(), DisableTorchFunction():
            return func(*args, **(kwargs or {}))

    environment.dispatch = asked


def _without_dynamo(environment: Any) -> None:
    """torch keeps its compiler away from dispatch modes, and imports it for that: two seconds saved."""
    wrapped = getattr(type(environment._dispatch_mode).__torch_dispatch__, "__wrapped__", None)
    if wrapped is not None:
        wrapped.__dynamo_disable = wrapped


def _fill_what_is_empty(environment: Any) -> None:
    """torchax lacks tensors like another without contents: zeros are as good, but where what is unwritten is watched."""
    dispatch = environment.dispatch

    def filled(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name = operation(func)
        if name not in ("empty_like", "new_empty"):
            return dispatch(func, types, args, kwargs)
        like, *size = args
        kind = (kwargs or {}).get("dtype") or like.dtype
        shape = like.shape if name == "empty_like" else size[0] if len(size) == 1 else size
        sizes = tuple(shape) if isinstance(shape, Iterable) else (shape,)
        return constant(environment, lambda: torch.zeros(sizes, dtype=kind))

    environment.dispatch = filled


def _copy_without_history(environment: Any) -> None:
    """What `new_tensor` and `torch.tensor` make of a tensor or of numbers has no gradient."""
    dispatch = environment.dispatch

    def copied(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name, options = operation(func), kwargs or {}
        like, *rest = args if name == "new_tensor" else (None, *args)
        data = rest[0] if rest else options.get("data")
        if name == "tensor" and isinstance(data, torch.Tensor):
            return data.detach().to(options.get("dtype") or data.dtype)
        if name != "new_tensor":
            return dispatch(func, types, args, kwargs)
        kind = options.get("dtype") or like.dtype
        if isinstance(data, torch.Tensor):
            return data.detach().to(kind)
        return constant(environment, lambda: torch.tensor(data, dtype=kind))

    environment.dispatch = copied


def _count_axes_from_the_front(environment: Any) -> None:
    """Running extremes along `dim=-1`, which torchax takes for another axis."""
    dispatch = environment.dispatch

    def counted(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if operation(func) not in ("cummax", "cummin"):
            return dispatch(func, types, args, kwargs)
        x, dim = tuple(args) + tuple(dict(kwargs or {}).values())
        return dispatch(func, types, (x, dim % max(1, x.ndim)), {})

    environment.dispatch = counted


def _write_in_place(environment: Any) -> None:
    """An operation in place that torchax lacks is the one beside it, written back."""
    from torchax.ops.ops_registry import Operator
    from torchax.tensor import OperatorNotFound

    own_lookup = environment._get_op_or_decomp

    def lookup(function: Any) -> Any:
        try:
            return own_lookup(function)
        except OperatorNotFound:
            name = operation(function)
            plain = getattr(torch.ops.aten, name.removesuffix("_"), None)
            if not name.endswith("_") or name.endswith("__") or plain is None:
                raise

        def written(target: Any, *args: Any, **kwargs: Any) -> Any:
            return target.copy_(plain(target, *args, **kwargs))

        return Operator(
            function, written, is_jax_function=False, is_user_defined=False, needs_env=False,
            is_view_op=True,
        )  # fmt: skip

    environment._get_op_or_decomp = lookup


def warm() -> None:
    """Import what tracing needs before a server forks; an environment of torchax starts JAX's backend."""
    with contextlib.suppress(UserCodeError), calling_user_code(), _tolerant(), keeping_its_name():
        for name in (
            "torchax.interop",
            "torchax.ops.jaten",
            "torchax.ops.jtorch",
            "torchax.decompositions",
        ):
            importlib.import_module(name)


@contextlib.contextmanager
def _tolerant() -> Iterator[None]:
    packet: Any = OpOverloadPacket
    original = packet.__getattr__

    def lookup(self: Any, name: str) -> Any:
        try:
            return original(self, name)
        except AttributeError:
            if name.startswith("__"):
                raise
            return _Absent()

    packet.__getattr__ = lookup
    try:
        yield
    finally:
        packet.__getattr__ = original


class _Absent:
    """An overload that this torch does not have: equal to none that it has."""


@contextlib.contextmanager
def environment(surroundings: Surroundings) -> Iterator[None]:
    """The context in which torch operations are JAX's, and new tensors its arrays."""
    with _environment(), torch.device(NAME), taking_numbers(), surroundings():
        yield


def traced(
    function: Callable[..., Any],
    avals: Sequence[Any],
    surroundings: Surroundings = contextlib.nullcontext,
    *,
    through_detach: bool = False,
) -> Any:
    """The closed jaxpr of a function of torch tensors, given as torchax's; `detach` may go unnoticed in it."""
    _environment()
    from torchax import interop

    def run(*arrays: Any) -> Any:
        with environment(surroundings):
            return interop.jax_view(function(*map(interop.torch_view, arrays)))

    def made(parts_are_new: bool) -> Any:
        before = _PARTS_ARE_NEW.set(parts_are_new)
        try:
            with calling_user_code(), unnoticed(through_detach):
                return jax.make_jaxpr(run)(*avals)
        finally:
            _PARTS_ARE_NEW.reset(before)

    try:
        return made(parts_are_new=False)
    except UserCodeError as raised:
        if not isinstance(raised.error, AttributeError):
            raise
    return made(parts_are_new=True)
