"""NumPy inside of a traced function: what a tensor's `.numpy()` is while torchax traces.

A rule may leave torch on its way (`x.cpu().numpy()`, `np.sort`, `torch.from_numpy`). No array stands behind a tensor
that is traced, so its `.numpy()` is an object to which NumPy hands its functions over (its protocols
`__array_ufunc__` and `__array_function__`); each of them is JAX's function of that name.
"""

from __future__ import annotations

import contextlib
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
from gradcheck_cli.frameworks.torch.native_ops import operation
from gradcheck_cli.frameworks.torch.private_api import tree_map_only

_OTHER_NAMES = {"psi": "digamma", "_clip": "clip"}
# Functions that write into their first argument, and methods that do.
_WRITES = frozenset({"put_along_axis", "fill_diagonal", "put", "place"})
_WRITTEN_BY: dict[str, Any] = {"sort": jnp.sort, "fill": jnp.full_like}
# Methods that look at the same memory in another way, and how what is written there goes back.
_BACK: dict[str, Callable[[Any, Any], Any]] = {
    "reshape": lambda whole, part: part.reshape(whole.shape),
    "ravel": lambda whole, part: part.reshape(whole.shape),
    "squeeze": lambda whole, part: part.reshape(whole.shape),
    "T": lambda whole, part: part.T,
}
_BASIC = (int, np.integer, slice, EllipsisType, type(None))
_ALSO_VIEWS = frozenset({"mT", "real", "imag", "transpose", "swapaxes", "diagonal"})


class _Memory(Protocol):
    """Where the numbers of an array lie."""

    def read(self) -> Any: ...

    def write(self, value: Any) -> None: ...


@dataclass(slots=True)
class _Own:
    value: Any

    def read(self) -> Any:
        return self.value

    def write(self, value: Any) -> None:
        self.value = value


@dataclass(frozen=True, slots=True)
class _OfTensor:
    tensor: Any

    def read(self) -> Any:
        return self.tensor.jax()

    def write(self, value: Any) -> None:
        tensor = self.tensor
        while tensor is not None:
            tensor.copy_(_tensor_of(value))
            tensor = getattr(tensor, "detached_from", None)


@dataclass(frozen=True, slots=True)
class _View:
    """Another array's memory, looked at in another way."""

    base: _Memory
    look: Callable[[Any], Any]
    back: Callable[[Any, Any], Any] | None  # the whole with a part written into it

    def read(self) -> Any:
        return self.look(self.base.read())

    def write(self, value: Any) -> None:
        if self.back is None:
            raise Untraceable("it writes into a view of a NumPy array")
        self.base.write(self.back(self.base.read(), value))


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
        if name == "copyto":
            return _write(args[0], jnp.broadcast_to(_unwrapped(args[1]), args[0].shape))
        function: Any = _of_jax(name, room)
        if name in _WRITES:
            return _write(args[0], function(*_unwrapped(args), **_unwrapped(kwargs), inplace=False))
        return _wrapped(function(*_unwrapped(args), **_unwrapped(kwargs)))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what a library asks for that takes arrays of any kind
            raise AttributeError(name)
        if name in _WRITTEN_BY:
            return lambda *args, **kwargs: self.write(_WRITTEN_BY[name](self.value, *_unwrapped(args), **kwargs))  # fmt: skip
        found = getattr(self.value, name)
        if not callable(found) or isinstance(found, jax.Array):
            return self._looked_at(name, lambda whole: getattr(whole, name))

        def called(*args: Any, **kwargs: Any) -> Any:
            given, named = _unwrapped(args), _unwrapped(kwargs)
            return self._looked_at(name, lambda whole: getattr(whole, name)(*given, **named))

        return called

    def _looked_at(self, name: str, look: Callable[[Any], Any]) -> Any:
        """What a method or an attribute gives: a view, or an array of its own."""
        if name in _BACK or name in _ALSO_VIEWS:
            return TracedNumbers(_View(self._memory, look, _BACK.get(name)))
        return _wrapped(look(self.value))

    def __getitem__(self, index: Any) -> Any:
        place = _unwrapped(index)
        found = self.value[place]
        parts = place if isinstance(place, tuple) else (place,)
        if found.ndim == 0 or not all(isinstance(part, _BASIC) for part in parts):
            return _wrapped(found)  # NumPy copies here
        return TracedNumbers(
            _View(
                self._memory,
                lambda whole: whole[place],
                lambda whole, part: whole.at[place].set(part),
            )
        )

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
        return self.value.__index__()  # type: ignore[no-any-return]


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
    """The same with arrays of NumPy's manners for those of JAX."""
    return tree_map_only(jax.Array, lambda value: TracedNumbers(_Own(value)), made)


def _write(target: Any, value: Any) -> None:
    if not isinstance(target, TracedNumbers):
        raise Untraceable("it writes what depends on its inputs into an array that NumPy made")
    target.write(value)


def leave_torch(environment: Any, *classes: Any) -> None:
    """Let tensors of these classes be taken to NumPy and back."""
    for cls in classes:
        cls.numpy = lambda self, force=False: _numbers(self)
    dispatch = environment.dispatch

    def returning(func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        args, kwargs = tree_map_only(TracedNumbers, lambda a: _tensor_of(a.value), (args, kwargs or {}))  # fmt: skip
        if operation(func) == "cpu":
            return args[0]
        if operation(func) in ("to", "_to_copy") and type(args[0]) in classes:
            args, kwargs = _without_device(args, kwargs)
            if len(args) == 1 and not kwargs:
                return args[0]
        return dispatch(func, types, args, kwargs)

    environment.dispatch = returning


def _numbers(tensor: Any) -> Any:
    value = tensor.jax()
    traced = isinstance(value, jax.core.Tracer)
    return TracedNumbers(_OfTensor(tensor)) if traced else np.array(value)


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
        return _tensor_of(array.value) if isinstance(array, TracedNumbers) else own(array)

    torch_itself.from_numpy = from_numpy
    try:
        yield
    finally:
        torch_itself.from_numpy = own
