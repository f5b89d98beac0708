"""A torch custom gradient at one signature: run eagerly, traced by torchax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gradcheck_cli.frameworks.shared.eager_subject import EagerSubject
from gradcheck_cli.frameworks.shared.rows import Row
from gradcheck_cli.frameworks.torch.bridge.random import draws
from gradcheck_cli.frameworks.torch.call import Call, Tensors, host, tensor
from gradcheck_cli.frameworks.torch.gradient import TorchGradient
from gradcheck_cli.frameworks.torch.inner_rules import keeping_rules
from gradcheck_cli.frameworks.torch.pull import gradients
from gradcheck_cli.frameworks.torch.trace import traced
from gradcheck_cli.frameworks.torch.tried import tried
from gradcheck_cli.frameworks.torch.triton.compiled import AtOnce, at_once, is_near
from gradcheck_cli.subject.results import Floats
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_DRAWN = "a GPU draws other random numbers than the trace, which is made on the CPU: it ran there"


@dataclass(slots=True, kw_only=True)
class TorchSubject(EagerSubject):
    """A gradient's programs and its floats; `fit` adds other calls and other dtypes."""

    gradient: TorchGradient
    call: Call
    _random: bool | None = None
    without_history: bool = False  # of none of its outputs autograd knows how it was made
    _compiled: AtOnce | None = None

    # -- traces -------------------------------------------------------------------------

    def try_rule(self) -> bool:
        points = [tensor(self.call.plain(leaf), self.call.dtype) for leaf in self.leaves]
        cotangents = self.cotangents([np.ones(shape) for shape in self.outputs])
        if self.has_rule:
            self.kernels = tried(self.call, self._native, points, cotangents)
        try:
            with calling_user_code():
                if self._auto(points, cotangents) is not None:
                    return True
                self.without_history = self.has_rule and self._has_no_history(points)
        except UserCodeError:  # autograd does not go through the body
            self.without_history = self.has_rule
        return False

    def forward_jaxpr(self) -> Any:
        return self._traced(self._forward, self.avals)

    def trusting_jaxpr(self) -> tuple[Any, Sequence[str]] | None:
        surroundings = self.gradient.surroundings
        with keeping_rules(surroundings) as called:
            forward = self._traced(self._forward, self.avals)
            return (forward, [cls.__name__ for cls in called]) if called else None

    def rule_jaxpr(self, outs: Sequence[Any]) -> Any:
        return self._traced(self._rule, (*self.avals, *outs))

    def _traced(self, function: Callable[..., Any], avals: Sequence[Any]) -> Any:
        surroundings = self.gradient.surroundings
        return traced(function, avals, surroundings, through_detach=self.without_history)

    def _has_no_history(self, points: Tensors) -> bool:
        """Is every output cut off, by `detach` or by NumPy? In a forward function that says nothing of its gradient."""
        held = [x.clone().requires_grad_() for x in points]
        judged = self.call.judged(self.call.primal_outputs([x.clone() for x in held]))
        return not any(out.requires_grad for out in judged)

    def _forward(self, *leaves: Any) -> Any:
        return tuple(self.call.judged(self.call.primal_outputs(leaves)))

    def _rule(self, *args: Any) -> Any:
        leaves, cotangents = args[: len(self.leaves)], args[len(self.leaves) :]
        outs, context = self.call.primal([x.clone() for x in leaves])
        values = tuple(self.call.judged(outs))
        pulled_back = self.call.pulled_back(outs, context, cotangents)
        pulled = (
            torch.zeros_like(x) if g is None else _summed_to(g, x)
            for x, g in zip(leaves, pulled_back, strict=True)
        )
        return (*values, *pulled)

    # -- floats ---------------------------------------------------------------------------

    def primal_row(self, point: Sequence[Any]) -> list[Array]:
        leaves = [tensor(p, self.call.dtype) for p in point]
        with torch.no_grad():
            return _host(self.call.judged(self.call.primal_outputs(leaves)))

    def at_once(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Floats | None:
        if not self.kernels or self.has_auto or self.gradient.reference is not None:
            return super(TorchSubject, self).at_once(points, cotangents)
        if self.traces().rule is None:
            return None
        if self._compiled is None:
            self._compiled = at_once(self.trace_rule, self.dtype, len(self.outputs))
        whole = self._compiled(points, cotangents)
        near = functools.partial(is_near, dtype=self.dtype)
        return whole if self.same_alone(whole, points, cotangents, near) else None

    def row(self, point: Sequence[Any], cotangent: Sequence[Any]) -> Row:
        leaves = [tensor(p, self.call.dtype) for p in point]
        cotangents = self.cotangents(cotangent)
        value = self.primal_row(point)
        rule_value, pulled = self._native(leaves, cotangents)
        if not self.has_rule:
            return Row(value, _host(rule_value), None, _host(pulled))
        auto = None
        if self.has_auto:
            try:
                with calling_user_code():
                    auto = self._auto(leaves, cotangents)
            except UserCodeError:
                auto = [torch.full_like(x, torch.nan) for x in leaves]
        return Row(value, _host(rule_value), _host(pulled), None if auto is None else _host(auto))

    def own_gradients(self, point: Sequence[Any], cotangent: Sequence[Any]) -> list[Array]:
        leaves = [tensor(p, self.call.dtype) for p in point]
        return _host(self._native(leaves, self.cotangents(cotangent))[1])

    def _native(self, leaves: Tensors, cotangents: Tensors) -> tuple[list[Any], list[Any]]:
        """Value and gradients as training gets them."""
        held = [x.clone().requires_grad_() for x in leaves]
        asked = self.call.ask(self.gradient.rule, [x.clone() for x in held])
        outs = self.call.judged(asked)
        own = [c.clone() for c in cotangents]  # a rule may write into what it is given
        return outs, _zeros_for_none(gradients(outs, held, own), held)

    def _auto(self, leaves: Tensors, cotangents: Tensors) -> list[Any] | None:
        """Autograd through the forward's body; None where it is cut off."""
        held = [x.clone().requires_grad_() for x in leaves]
        judged = self.call.judged(self.call.primal_outputs([x.clone() for x in held]))
        if not all(out.requires_grad for out in judged):
            return None
        return _zeros_for_none(gradients(judged, held, cotangents), held)

    def cotangents(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            tensor(a, getattr(torch, name))
            for a, name in zip(arrays, self.output_dtypes, strict=True)
        ]

    @property
    def stays_on_cpu(self) -> str:
        return _DRAWN if self._draws() else ""

    def _draws(self) -> bool:
        """Does the call take random numbers?"""
        if self._random is None:
            self._random = draws(lambda: self.primal_row([self.call.plain(leaf) for leaf in self.leaves]))  # fmt: skip
        return self._random

    def in_float64(self, *, bare: bool = True) -> Self | None:
        """The subject in float64; None for a call that draws, which would draw other numbers there."""
        return None if self._draws() else super(TorchSubject, self).in_float64(bare=bare)

    # -- library functions ------------------------------------------------------------------

    def written_row(
        self, names: Sequence[str], text: str
    ) -> tuple[Any, Callable[..., list[Array]]]:
        function = self.gradient.library.written(names, text)
        outs = [jax.ShapeDtypeStruct(s, jnp.dtype(self.dtype)) for s in self.outputs]

        def one(point: Sequence[Array], cotangent: Sequence[Array]) -> list[Array]:
            leaves = [tensor(p, self.call.dtype) for p in point]
            return _host(function(*leaves, *self.cotangents(cotangent)))

        return traced(function, (*self.avals, *outs), self.gradient.surroundings), one


def _zeros_for_none(pulled: Sequence[Any], held: Tensors) -> list[Any]:
    return [torch.zeros_like(x) if g is None else g for g, x in zip(pulled, held, strict=True)]


def _host(tensors: Tensors) -> list[Array]:
    return [host(t) for t in tensors]


def _summed_to(gradient: Any, leaf: Any) -> Any:
    """torch sums a gradient over what it was broadcast along, and casts it."""
    if gradient.shape != leaf.shape:
        gradient = gradient.sum_to_size(leaf.shape)
    return gradient.to(leaf.dtype)
