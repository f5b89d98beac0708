"""One launch of a kernel: its programs one after the other, on memories of its own."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

from gradcheck_cli.frameworks.torch.triton.launched import needless, note
from gradcheck_cli.frameworks.torch.triton.memory import Memories

_ACTIVE: list[Memories] = []


def memories() -> Memories:
    """The memories of the launch that runs now."""
    return _ACTIVE[-1]


class Launch(interpreter.GridExecutor):  # type: ignore[misc]
    """What executes a grid: on memories instead of copies of the tensors."""

    fn: Any  # the kernel

    def _init_args_hst(self, args_dev: Any, kwargs: Any) -> tuple[list[Any], dict[str, Any]]:
        return list(args_dev), dict(kwargs)

    def _restore_args_dev(self, *_: Any) -> None:
        """Nothing was copied."""

    def _named(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """All arguments by their names, with the defaults of those that are not given."""
        parameters = inspect.signature(self.fn).parameters
        names = [name for name in parameters if name not in kwargs]
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        own = {n: p.default for n, p in parameters.items() if p.default is not inspect.Parameter.empty}  # fmt: skip
        return {**own, **{name: value for name, value in given.items() if name in parameters}}

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        given = [*args, *kwargs.values()]
        here = Memories(self.fn.__name__, traced=any(hasattr(value, "jax") for value in given))
        named = self._named(args, kwargs)
        tensors = {name: value for name, value in named.items() if isinstance(value, torch.Tensor)}
        for name, tensor in tensors.items():
            here.pointer(tensor, name)
        grid = self.grid(named) if callable(self.grid) else self.grid
        self.grid: Any = tuple(map(int, grid))
        programs = math.prod(self.grid)
        skipped, own = needless(programs), self.fn
        if skipped is not None:
            self.fn = _WithoutSome(own, skipped, self.grid)
        _ACTIVE.append(here)
        try:
            super().__call__(*args, **kwargs)
        except interpreter.InterpreterError as error:
            *_, first = _causes(error)  # what the kernel raised, not what became of it on the way
            raise first from None
        finally:
            self.fn = own
            _ACTIVE.pop()
        constants = {name: value for name, value in named.items() if name in self.constexprs}
        note(constants, [tuple(tensor.shape) for tensor in tensors.values()], programs)
        here.give_back()


class _WithoutSome:
    """A kernel of which some programs do nothing."""

    def __init__(self, kernel: Any, skipped: range, grid: Sequence[int]) -> None:
        self.kernel, self.skipped, self.grid = kernel, skipped, grid
        self.__name__, self.__globals__ = kernel.__name__, kernel.__globals__
        self.__signature__ = inspect.signature(kernel)

    def __call__(self, **arguments: Any) -> None:
        place = 0
        for index, size in zip(interpreter.interpreter_builder.grid_idx, self.grid, strict=False):
            place = place * size + index
        if place not in self.skipped:
            self.kernel(**arguments)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__


def converted(own: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """How the interpreter takes an argument: a float as the compiler does, a tensor as a pointer into its memory."""

    def taken(value: Any) -> Any:
        if isinstance(value, bool):
            return number(np.array([value]), tl.int1)
        if isinstance(value, float):
            return number(np.array([value], np.float32), tl.float32)
        if isinstance(value, torch.Tensor):
            kind = tl.str_to_ty(interpreter.triton.runtime.jit.mangle_type(value), None)
            return number(memories().pointer(value, "a tensor that a tuple holds"), kind)
        return own(value)

    return taken


def number(data: Any, kind: Any) -> Any:
    """A single number, or pointer, as kernels have them."""
    return tl.tensor(interpreter.TensorHandle(data, kind), kind)
