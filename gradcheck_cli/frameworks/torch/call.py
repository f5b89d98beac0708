"""A torch function of its leaves alone: inputs are put together, judged outputs picked."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import torch

from gradcheck_cli.clues.source_text.returned import returned_tuples
from gradcheck_cli.frameworks.shared.plain_points import plain
from gradcheck_cli.frameworks.torch.bridge.random import start_over
from gradcheck_cli.frameworks.torch.context import Context
from gradcheck_cli.frameworks.torch.gradient import CLASS, TorchGradient
from gradcheck_cli.inputs.signature import OMITTED, Leaf, Signature, filled
from gradcheck_cli.subject.device import measures_on_gpu

Array = np.ndarray[Any, Any]
Tensors = Sequence[Any]


def device() -> str:
    """Where new tensors are made: on a GPU while something is measured, if one was asked for."""
    return "cuda" if measures_on_gpu() and torch.cuda.is_available() else "cpu"


def tensor(array: Any, dtype: Any) -> Any:
    """A new tensor on the chosen device."""
    return torch.tensor(np.asarray(array), dtype=dtype, device=device())


def host(value: Any) -> Array:
    """A tensor's numbers as an array of ours."""
    return np.asarray(torch.as_tensor(value).detach().to("cpu", torch.float64).numpy())


@dataclass(slots=True)
class Call:
    """The function of its leaves alone; `kept` are the numbers of the outputs that are judged.

    A complex argument is made of two leaves, a complex output is judged as two: torch itself parts and pairs
    their gradients where it runs the rule, `pulled_back` does it where the rule is traced.
    """

    gradient: TorchGradient
    signature: Signature
    dtype: Any
    turn: int = 0  # of plain numbers, at which it is tried whether anything runs
    kept: tuple[int, ...] = ()
    by_kernels: bool = False  # the forward launches some: its shapes are what these take
    _defaults: dict[str, Any] | None = None
    _left_out: int | None = None

    def plain(self, leaf: Leaf) -> Array:
        """Numbers for an argument at which it is tried whether function and rule run at all."""
        return plain(leaf, self.turn)

    def inputs(self, leaves: Tensors) -> list[Any]:
        """All inputs in their order, defaults spelled out."""
        supply = iter(leaves)
        if self._defaults is None:
            self._defaults = {p.name: p.default for p in self.gradient.parameters()}
        return [
            self._defaults[name]
            if value is OMITTED
            else filled(value, supply, _fixed, torch.complex)
            for name, value in self.signature.arguments
        ]

    def ask(self, function: Callable[..., Any], leaves: Tensors, *before: Any) -> list[Any]:
        """The function at these leaves; its outputs in one line."""
        inputs = self.inputs(leaves)
        keywords = self.signature.keywords
        names = [name for name, _ in self.signature.arguments]
        values = dict(zip(names, inputs, strict=True))
        plain = [values[name] for name in names if name not in keywords]
        if self._left_out is None:
            self._left_out = self._left_to_torch()
        plain = plain[: len(plain) - self._left_out]
        start_over()
        return _line(function(*before, *plain, **{name: values[name] for name in names if name in keywords}))  # fmt: skip

    def _left_to_torch(self) -> int:
        """How many of the last inputs are left out: a backward may give as many gradients as were given.

        One that gives a gradient for each input of forward is called with all of them, as by the layers that use it.
        """
        if self.gradient.kind != CLASS or not self.gradient.skipped:
            return 0  # torch itself spells the defaults out
        counts = {n for f in self.gradient.rule_code() for n in _lengths_returned(f)}
        given = self._placed
        if counts == {len(given)}:
            return 0
        return len(list(itertools.takewhile(lambda value: value is OMITTED, reversed(given))))

    @property
    def _placed(self) -> list[Any]:
        """The arguments that go by their places: what forward itself takes."""
        return [v for n, v in self.signature.arguments if n not in self.signature.keywords]

    def primal(self, leaves: Tensors) -> tuple[list[Any], Context]:
        """The forward's body alone, with the context that it fills."""
        every = [value for _, value in self.signature.arguments]
        given = self._placed if self.gradient.kind == CLASS else every
        context = Context(tuple(isinstance(value, Leaf) for value in given))
        return self.ask(self.gradient.forward, leaves, context), context

    def primal_outputs(self, leaves: Tensors) -> list[Any]:
        """The outputs of what the rule is to differentiate: the forward's body, or a reference."""
        reference = self.gradient.reference
        return self.primal(leaves)[0] if reference is None else self.ask(reference, leaves)

    def outputs(self, leaves: Tensors) -> dict[int, Any]:
        """Outputs of the rule that are floats and differentiable, by their number."""
        held = [x.clone().requires_grad_() for x in leaves]
        outs = self.ask(self.gradient.rule, [x.clone() for x in held])
        return {
            i: out
            for i, out in enumerate(outs)
            if isinstance(out, torch.Tensor)
            and (out.is_floating_point() or out.is_complex())
            and out.requires_grad
        }

    def judged(self, outs: Sequence[Any]) -> list[Any]:
        return [part for i in self.kept for part in parts(outs[i])]

    def pulled_back(self, outs: Sequence[Any], context: Context, cotangents: Tensors) -> list[Any]:
        """The backward's gradients for each leaf, as torch would take them."""
        pulled = self.returned(outs, context, cotangents)
        gradients: list[Any] = []
        for position, (_, value) in enumerate(self.signature.arguments):
            given = pulled[position] if position < len(pulled) else None
            gradients += _of_leaves(value, given)
        return gradients

    def returned(self, outs: Sequence[Any], context: Context, cotangents: Tensors) -> list[Any]:
        """All that backward returns, a gradient for each input."""
        assert self.gradient.backward is not None
        supply = iter(cotangents)
        weights = {i: _paired(outs[i], supply) for i in self.kept}
        upstream = [_cotangent(i, out, weights, context) for i, out in enumerate(outs)]
        pulled = self.gradient.backward(context, *upstream)
        return list(pulled) if isinstance(pulled, tuple) else [pulled]


def parts(out: Any) -> list[Any]:
    """A tensor, or the two of which a complex one consists."""
    return [out.real, out.imag] if out.is_complex() else [out]


def _paired(out: Any, supply: Iterator[Any]) -> Any:
    """The cotangent of an output from those of its parts."""
    return torch.complex(next(supply), next(supply)) if out.is_complex() else next(supply)


def _of_leaves(value: Any, given: Any) -> list[Any]:
    """The gradients of an argument's leaves: of a list of tensors there is a list."""
    if isinstance(value, Leaf) and value.is_complex:
        return [None, None] if given is None else [given.real, _imaginary(given)]
    if isinstance(value, Leaf):
        return [given.real if given is not None and given.is_complex() else given]
    if isinstance(value, (tuple, list)):
        each = given if isinstance(given, (tuple, list)) else [None] * len(value)
        return [g for item, part in zip(value, each, strict=True) for g in _of_leaves(item, part)]
    return []


def _imaginary(gradient: Any) -> Any:
    """torch takes a real gradient of complex numbers for a complex one."""
    return gradient.imag if gradient.is_complex() else torch.zeros_like(gradient)


def _cotangent(number: int, out: Any, weights: dict[int, Any], context: Context) -> Any:
    if number in weights:
        return weights[number]
    if not isinstance(out, torch.Tensor) or not context.materialize_grads:
        return None
    return torch.zeros_like(out)


def _line(out: Any) -> list[Any]:
    if isinstance(out, (tuple, list)):
        return [item for part in out for item in _line(part)]
    if isinstance(out, dict):
        return [item for part in out.values() for item in _line(part)]
    return [out]


def _fixed(value: Any) -> Any:
    """Integer arrays that were guessed for an argument, as torch has them."""
    if isinstance(value, (np.ndarray, jax.Array)):
        array = np.asarray(value)
        wide = array.astype(np.int64) if array.dtype.kind in "iu" else array
        return torch.tensor(wide, device=device())
    return value.to(device()) if isinstance(value, torch.Tensor) else value


@functools.lru_cache(maxsize=64)
def _lengths_returned(function: Callable[..., Any]) -> frozenset[int]:
    """How many gradients a backward's text returns; read once, as hundreds of calls ask for it."""
    return frozenset(len(t.elts) for t in returned_tuples(function))
