"""NumPy inside of a traced function: what a tensor's `.numpy()` is while torchax traces.

A rule may leave torch on its way (`x.cpu().numpy()`, `np.sort`, `torch.from_numpy`). No array stands behind a tensor
that is traced, so its `.numpy()` is an object to which NumPy hands its functions over (its protocols
`__array_ufunc__` and `__array_function__`); each of them is JAX's function of that name.
"""

from __future__ import annotations

import contextlib
import functools
import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import EllipsisType
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
import torch
from numpy.lib.mixins import NDArrayOperatorsMixin

from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.torch.bridge.native_ops import operation
from gradcheck_cli.frameworks.torch.private_api import tree_map_only

_OTHER_NAMES = {"psi": "digamma", "_clip": "clip"}
# Functions that write into their first argument, and methods that do.
_WRITES = frozenset({"put_along_axis", "fill_diagonal", "put", "place"})
_NOT_FOLLOWED = frozenset({"where", "copy", "order"})  # options
_WRITTEN_BY: dict[str, Any] = {"sort": jnp.sort, "fill": jnp.full_like}
# Functions and methods that may look at the same memory: into what is looked at in two ways nothing is written.
_VIEWS = frozenset({
    "reshape", "ravel", "squeeze", "flip", "fliplr", "flipud", "rot90", "transpose", "swapaxes", "moveaxis", "rollaxis",
    "expand_dims", "split", "array_split", "hsplit", "vsplit", "dsplit", "atleast_1d", "atleast_2d", "atleast_3d", "real",
    "imag", "diagonal", "diag", "broadcast_to", "T", "mT", "view",
})  # fmt: skip
_BASIC = (int, np.integer, slice, EllipsisType, type(None))
_COPIES = ("tensor", "new_tensor")  # of torch


class _Memory(Protocol):
    """Where the numbers of an array lie."""

    def read(self) -> Any: ...

    def write(self, value: Any) -> None: ...

    def share(self) -> None:
        """From now on something else may look at it, too."""


@dataclass(slots=True)
class _Own:
    value: Any
    shared: bool = False

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> None:
        _refuse(self.shared)
        self.value = value

    def share(self) -> None:
        self.shared = True


@dataclass(slots=True)
class _OfTensor:
    """That of a tensor, and of those that it was detached from: they share it."""

    tensor: Any
    shared: bool = False

    def read(self) -> Any:
        first, *before = self._same()
        return jax.lax.stop_gradient(before[-1].jax()) if before else first.jax()

    def write(self, value: Any) -> None:
        _refuse(self.shared)
        for tensor in self._same():
            tensor.copy_(_tensor_of(value))

    def share(self) -> None:
        self.shared = True

    def _same(self) -> list[Any]:
        found = [self.tensor]
        while (before := getattr(found[-1], "detached_from", None)) is not None:
            found.append(before)
        return found


@dataclass(frozen=True, slots=True)
class _Part:
    """What an index gives of another array's memory."""

    base: _Memory
    place: Any

    def read(self) -> Any:
        return self.base.read()[self.place]

    def write(self, value: Any) -> None:
        self.base.write(self.base.read().at[self.place].set(value))

    def share(self) -> None:
        self.base.share()


def _refuse(shared: bool) -> None:
    if shared:
        raise Untraceable("it writes into a NumPy array that something else looks at, too")


class TracedNumbers(NDArrayOperatorsMixin):
    """The array of a traced tensor; what is written into it is written into the tensor."""

    def __init__(self, memory: _Memory) -> None:
        self._memory = memory

    @property
    def value(self) -> Any:
        return self._memory.read()

    def write(self, value: Any) -> None:
        """Take other contents, of the type that the array has."""
        self._memory.write(jnp.asarray(value).astype(self.value.dtype))

    def share(self) -> None:
        """From now on something else may look at its memory, too."""
        self._memory.share()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        out = options.pop("out", None)
        if options.pop("where", True) is not True:
            raise Untraceable(f"NumPy's `{ufunc.__name__}` is asked for some of its elements")
        function: Any = _of_jax(ufunc.__name__)
        if method == "at":
            return _write(inputs[0], function.at(*_unwrapped(inputs), inplace=False))
        if method != "__call__":
            function = getattr(function, method)
        kind = options.pop("dtype", None)
        made = _wrapped(function(*_unwrapped(inputs), **_unwrapped(options)))
        if kind is not None:
            made = made.astype(kind)
        if out is None:
            return made
        _write(out[0], made.value)
        return out[0]

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        name, room = func.__name__, str(func.__module__).removeprefix("numpy").removeprefix(".")
        options = dict(kwargs)
        out = options.pop("out", None)
        if name == "copyto":
            return _copied_to(*args, **options)
        function: Any = _of_jax(name, room)
        if name in _WRITES:
            return _write(
                args[0], function(*_unwrapped(args), **_unwrapped(options), inplace=False)
            )
        if options.keys() & _NOT_FOLLOWED:
            raise Untraceable(f"NumPy's `{name}` is called with {', '.join(map(repr, options))}")
        made = function(*_unwrapped(args), **_unwrapped(options))
        if out is not None:
            _write(out, made)
            return out
        return _shared(made, args) if name in _VIEWS else _wrapped(made)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what a library asks for that takes arrays of any kind
            raise AttributeError(name)
        if name in _WRITTEN_BY:
            return lambda *args, **kwargs: self.write(_WRITTEN_BY[name](self.value, *_unwrapped(args), **kwargs))  # fmt: skip
        found = getattr(self.value, name)
        if not callable(found) or isinstance(found, jax.Array):
            return self._handed_out(name, found)

        def called(*args: Any, **kwargs: Any) -> Any:
            if name == "astype" and not kwargs.pop("copy", True):
                return _shared(found(*_unwrapped(args), **_unwrapped(kwargs)), self)
            if kwargs.keys() & _NOT_FOLLOWED:
                raise Untraceable(
                    f"`.{name}` of a NumPy array is called with {', '.join(map(repr, kwargs))}"
                )
            return self._handed_out(name, found(*_unwrapped(args), **_unwrapped(kwargs)))

        return called

    def _handed_out(self, name: str, made: Any) -> Any:
        return _shared(made, self) if name in _VIEWS else _wrapped(made)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "_memory":
            raise Untraceable(f"it sets `.{name}` of a NumPy array")
        super().__setattr__(name, value)

    def __getitem__(self, index: Any) -> Any:
        place = _unwrapped(index)
        found = self.value[place]
        parts = place if isinstance(place, tuple) else (place,)
        if any(np.ndim(part) for part in parts if not isinstance(part, _BASIC)):
            return _wrapped(found)  # NumPy copies here
        if all(isinstance(part, (int, np.integer)) for part in parts) and found.ndim == 0:
            return _wrapped(found)  # a number
        if not all(isinstance(part, _BASIC) for part in parts):
            return _shared(found, self)
        return TracedNumbers(_Part(self._memory, place))

    def __setitem__(self, index: Any, value: Any) -> None:
        place, new = _unwrapped(index), _unwrapped(value)
        holds = getattr(place, "dtype", None) == np.dtype(bool) and place.shape == self.value.shape
        if holds and jnp.ndim(new) == 0:  # where a condition holds: its places are not known
            self.write(jnp.where(place, new, self.value))
        else:
            self.write(self.value.at[place].set(new))

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    def __len__(self) -> int:
        return len(self.value)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return np.asarray(self.value)

    def __bool__(self) -> bool:
        return bool(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return operator.index(self.value)


def _of_jax(name: str, room: str = "") -> Any:
    """JAX's function of NumPy's or SciPy's name, in the module that has the same name there."""
    name = _OTHER_NAMES.get(name, name)
    for module in (getattr(jnp, room, None) if room else jnp, jnp, jax.scipy.special):
        if (found := getattr(module, name, None)) is not None:
            return found
    raise Untraceable(f"NumPy's `{name}` is none that JAX has")


def _unwrapped(tree: Any) -> Any:
    return tree_map_only(TracedNumbers, lambda numbers: numbers.value, tree)


def _wrapped(made: Any) -> Any:
    """What JAX made, with arrays of NumPy's manners in it."""
    return tree_map_only(jax.Array, lambda value: TracedNumbers(_Own(value)), made)


def _shared(made: Any, looked_at: Any) -> Any:
    """What JAX made, where it may lie in the memory of these arrays."""
    tree_map_only(TracedNumbers, TracedNumbers.share, looked_at)
    return tree_map_only(jax.Array, lambda value: TracedNumbers(_Own(value, shared=True)), made)


def _write(target: Any, value: Any) -> None:
    if not isinstance(target, TracedNumbers):
        raise Untraceable("it writes what depends on its inputs into an array that NumPy made")
    target.write(value)


def _copied_to(target: Any, source: Any, *, where: Any = True, **_: Any) -> None:
    """`np.copyto`."""
    _write(target, jnp.where(_unwrapped(where), _unwrapped(source), _unwrapped(target)))


def leave_torch(environment: Any, *classes: Any) -> None:
    """Let tensors of these classes be taken to NumPy and back."""
    for cls in classes:
        cls.numpy = lambda self, force=False: _numbers(self)
    dispatch = environment.dispatch

    def returning(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        handed = functools.partial(_handed_over, copied=operation(func) in _COPIES)
        args, kwargs = tree_map_only(TracedNumbers, handed, (args, kwargs or {}))
        if operation(func) == "cpu":
            return args[0]
        if operation(func) in ("to", "_to_copy") and type(args[0]) in classes:
            args, kwargs = _without_device(args, kwargs)
            if kwargs.pop("copy", False):
                return args[0].clone().to(*args[1:], **kwargs)
            if len(args) == 1 and not kwargs:
                return args[0]
        return dispatch(func, types, args, kwargs)

    environment.dispatch = returning


def _numbers(tensor: Any) -> Any:
    value = tensor.jax()
    traced = isinstance(value, jax.core.Tracer)
    return TracedNumbers(_OfTensor(tensor)) if traced else np.asarray(value)  # not to be written to


def _handed_over(numbers: TracedNumbers, *, copied: bool) -> Any:
    """An array as a tensor, which lies in its memory if it is no copy."""
    if not copied:
        numbers.share()
    return _tensor_of(numbers.value)


def _without_device(args: Any, kwargs: Any) -> tuple[Any, dict[str, Any]]:
    """Where to move a traced tensor, left out: it is nowhere."""
    kept = [a for a in args[1:] if not isinstance(a, (str, torch.device))]
    return (args[0], *kept), {k: v for k, v in kwargs.items() if k != "device"}


def _tensor_of(value: Any) -> Any:
    from torchax import interop

    return interop.torch_view(value)


@contextlib.contextmanager
def taking_numbers() -> Iterator[None]:
    """While something is traced, `torch.from_numpy` takes the arrays of traced tensors, too."""
    torch_itself: Any = torch
    own: Callable[[Any], Any] = torch_itself.from_numpy

    def from_numpy(array: Any) -> Any:
        traced = isinstance(array, TracedNumbers)
        return _handed_over(array, copied=False) if traced else own(array)

    torch_itself.from_numpy = from_numpy
    try:
        yield
    finally:
        torch_itself.from_numpy = own
