"""Tensors as a kernel sees them: pointers into a memory, from which it loads and to which it stores.

A pointer is the number of its memory and an offset in bytes. While a function is traced a store makes new contents, for
what is traced cannot be written to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gradcheck_cli.frameworks.shared.tracing import Untraceable
from gradcheck_cli.frameworks.torch.triton.launched import places_read
from gradcheck_cli.frameworks.torch.triton.numbers import BFLOAT16, is_traced
from gradcheck_cli.frameworks.torch.triton.unwritten import places_of

_BITS = np.uint64(44)  # of an offset
_ORIGIN = np.uint64(1 << 43)  # where a memory begins: a pointer before it is still its own
Array = np.ndarray[Any, Any]

_OPERATIONS: Mapping[str, Any] = {
    "ADD": np.add, "FADD": np.add, "MAX": np.maximum, "UMAX": np.maximum, "MIN": np.minimum,
    "UMIN": np.minimum, "AND": np.bitwise_and, "OR": np.bitwise_or, "XOR": np.bitwise_xor,
}  # fmt: skip
_TRACED: Mapping[Any, str] = {np.add: "add", np.maximum: "max", np.minimum: "min"}


@dataclass(slots=True)
class Memory:
    """The contents that one tensor, or several views of it, stand for."""

    flat: Any  # numpy's or JAX's
    tensor: Any  # to which what is stored goes back; None where the contents are the tensor's own
    shape: tuple[int, ...]
    unwritten: Array | None = None  # places at which nothing was stored yet
    read: Array | None = None  # places that were loaded, where somebody asks
    is_new: bool = False  # it was stored to

    def load(self, places: Array, lanes: Array, kind: Any) -> Any:
        """What stands there, for these lanes of a block; something for the others."""
        if self.read is not None:
            self.read[places[lanes]] = True
        return self._taken_for(kind)[np.where(lanes, places, 0)]

    def store(self, places: Array, values: Any, kind: Any) -> None:
        """New contents, where they or the old ones are traced; else the same ones, changed."""
        if is_traced(values) or is_traced(self.flat):
            self._taken_for(kind)
            self.flat = jnp.asarray(self.flat).at[places].set(jnp.asarray(values, self.flat.dtype))
        else:
            self._taken_for(kind)[places] = values
        self.wrote(places)

    def combine(self, name: str, places: Array, values: Any, kind: Any) -> None:
        """What an atomic operation leaves there: of what nobody has written, nothing that is known."""
        if name == "XCHG":
            self.store(places, values, kind)
            return
        method = _OPERATIONS[name]
        if is_traced(values) or is_traced(self.flat):
            self._taken_for(kind)
            if method not in _TRACED:
                raise Untraceable(f"the atomic operation {name.lower()} takes floats for bits")
            at = jnp.asarray(self.flat).at[places]
            self.flat = getattr(at, _TRACED[method])(jnp.asarray(values, self.flat.dtype))
        else:
            method.at(self._taken_for(kind), places, values)
        self.is_new = True

    def _taken_for(self, kind: Any) -> Any:
        """The contents as numbers of the pointer's type: a maximum of floats is one of their bits."""
        if self.flat.dtype == kind:
            return self.flat
        if is_traced(self.flat):
            raise Untraceable(f"a kernel takes {self.flat.dtype} for {kind}")
        if self.flat.dtype.itemsize != np.dtype(kind).itemsize:
            raise TypeError(f"a pointer to {kind} into a tensor of {self.flat.dtype}")
        return self.flat.view(kind)

    def wrote(self, places: Array) -> None:
        """Something was stored there."""
        self.is_new = True
        if self.unwritten is not None:
            self.unwritten[places] = False


@dataclass(slots=True)
class Memories:
    """The memories of one launch of a kernel, by the numbers in its pointers."""

    kernel: str
    traced: bool
    each: list[Memory] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _numbers: dict[object, int] = field(default_factory=dict)

    def pointer(self, tensor: Any, name: str) -> Array:
        """The address of the first element of a tensor."""
        key, make, offset = self._home(tensor)
        if key not in self._numbers:
            self.each.append(make())
            self.names.append(name)
            self._numbers[key] = len(self.each)
        number = np.uint64(self._numbers[key])
        return np.array([(number << _BITS) + _ORIGIN + np.uint64(offset)], np.uint64)

    def _home(self, tensor: Any) -> tuple[object, Any, int]:
        """What a tensor has in common with all its views, how its memory is made, and where in it it begins."""
        if hasattr(tensor, "jax"):
            return id(tensor), lambda: _traced(tensor), 0
        key = (tensor.untyped_storage().data_ptr(), tensor.dtype, tensor.numel() == 0)
        offset = tensor.storage_offset() * tensor.element_size()
        return key, lambda: _plain(tensor, copied=self.traced), offset

    def parts(self, pointers: Array, lanes: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each memory that these lanes of a block point into its number, its lanes and their elements' places."""
        numbers = pointers >> _BITS
        for number in np.unique(numbers[lanes]):
            own = lanes & (numbers == number)
            if not 0 < number <= len(self.each):
                raise ValueError(
                    "a pointer that is no argument's: one tensor's address was changed for another's"
                )
            bytes_ = (pointers - (number << _BITS) - _ORIGIN).astype(np.int64)
            yield int(number) - 1, own, bytes_ // self.each[int(number) - 1].flat.dtype.itemsize

    def hold(self, number: int, places: Array, program: Sequence[int], does: str) -> None:
        """`IndexError` where one of these places is outside of the memory: on a GPU it is another tensor's, or nobody's."""
        size = self.each[number].flat.size
        outside = places[(places < 0) | (places >= size)]
        if outside.size:
            where = ", ".join(map(str, program))
            raise IndexError(
                f"the kernel `{self.kernel}` {does} element {int(outside.flat[0])} of `{self.names[number]}`, "
                f"which has {size}, in its program ({where})"
            )

    def inside(self, number: int, places: Array) -> Array:
        """Which of these places are inside of the memory."""
        inside: Array = (places >= 0) & (places < self.each[number].flat.size)
        return inside

    def give_back(self) -> None:
        """The contents that were stored, to their tensors."""
        stored = [m for m in self.each if m.is_new and m.tensor is not None]
        roots = [_root(memory.tensor) for memory in self.each]
        if any(sum(_root(memory.tensor) is root for root in roots) > 1 for memory in stored):
            raise Untraceable("a kernel writes to a tensor of which it is given two views")
        for memory in stored:
            new = jnp.asarray(memory.flat).reshape(memory.shape)
            if hasattr(memory.tensor, "update"):
                memory.tensor.update(new)
            elif hasattr(memory.tensor, "_elem"):
                memory.tensor._elem = new
            else:
                raise Untraceable("a kernel writes to a tensor that was there before the call")


def _root(tensor: Any) -> Any:
    """The tensor that a view, or a view of a view, shows a part of."""
    while hasattr(tensor, "parent"):
        tensor = tensor.parent
    return tensor


def _traced(tensor: Any) -> Memory:
    """The memory of a tensor of a trace; what does not rest on its arguments is known, and numpy's."""
    values = tensor.jax()
    known = not isinstance(values, jax.core.Tracer)
    if not known and not jnp.issubdtype(values.dtype, jnp.inexact):
        raise Untraceable("a kernel reads whole numbers that are computed from traced ones")
    flat = np.array(values).reshape(-1) if known else values.reshape(-1)
    return Memory(flat, tensor, tuple(values.shape))


def _plain(tensor: Any, *, copied: bool) -> Memory:
    """The storage of a tensor, all of it: a view of it is no shorter than what its pointer reaches."""
    size = tensor.untyped_storage().nbytes() // tensor.element_size()
    if tensor.numel() == 0:
        return Memory(np.empty(0, _dtype_of(tensor)), None, (0,))
    whole = torch.as_strided(tensor.detach(), (size,), (1,), 0)
    if whole.dtype == torch.bfloat16:
        flat = whole.view(torch.int16).numpy().view(BFLOAT16)
    else:
        flat = whole.numpy()
    if copied:
        return Memory(flat.copy(), tensor, (size,))
    read = places_read(tensor.untyped_storage().data_ptr(), size)
    return Memory(flat, None, (size,), places_of(tensor), read)


def _dtype_of(tensor: Any) -> Any:
    if tensor.dtype == torch.bfloat16:
        return BFLOAT16
    return torch.empty(0, dtype=tensor.dtype).numpy().dtype
