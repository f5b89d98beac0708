"""A JAX custom gradient at one signature: traced once, compiled once a mode, run in batches.

Long because one object answers the protocol: its traces and its floats share the flat functions.
"""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.jax.bounds import reads_beyond
from gradcheck_cli.frameworks.jax.gradient import JaxGradient
from gradcheck_cli.frameworks.jax.trace import (
    bounded,
    is_solution,
    is_zero,
    kernels_of,
    own_rules,
    pullback_jaxpr,
    stepwise,
    without_own_rules,
)
from gradcheck_cli.frameworks.shared.batches import batch_size, host, padded
from gradcheck_cli.frameworks.shared.fitted import Batched, FittedGradient
from gradcheck_cli.frameworks.shared.run_on import Iteration
from gradcheck_cli.frameworks.shared.tracing import (
    brief,
    cast,
    has_open_loop,
    opened,
    precision,
    with_jacobian,
    with_pullback,
)
from gradcheck_cli.subject.device import measured
from gradcheck_cli.subject.refusals import TO_THE_END, Declined, Rejected, RuleError
from gradcheck_cli.subject.results import (
    AUTO,
    JIT,
    OP_BY_OP,
    VALUE,
    Floats,
    Pullback,
    Traces,
)
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Array = np.ndarray[Any, Any]

_LONG_LOOPS = "it has loops that end by a condition, of which each trip takes a GPU hundreds of times as long: they ran on the CPU"
_ENDED = "an argument that is held fixed holds a value of a trace that has ended"


@dataclass(slots=True, kw_only=True)
class JaxSubject(FittedGradient):
    """A gradient's programs and its floats; `fit` adds other calls, other keys and other dtypes."""

    gradient: JaxGradient
    avals: tuple[Any, ...]
    out_avals: tuple[Any, ...]
    primal: Callable[..., Any]
    rule: Callable[..., Any]
    loops: bool = False
    _compiled: dict[tuple[str, int], Any] = field(default_factory=dict)

    @abc.abstractmethod
    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None:
        """The rule's gradients here, the primal's values at the ends; None if it draws nothing."""

    @property
    def has_rule(self) -> bool:
        return self.gradient.has_rule

    @property
    def modes(self) -> Sequence[str]:
        return JIT, OP_BY_OP

    @property
    def differentiable(self) -> bool:
        return self.traces().primal is not None

    @property
    def outputs(self) -> Sequence[tuple[int, ...]]:
        return [tuple(aval.shape) for aval in self.out_avals]

    @property
    def output_dtypes(self) -> list[str]:
        return [str(aval.dtype) for aval in self.out_avals]

    def trace(self) -> Traces:
        own = self.gradient.own
        try:
            bare = without_own_rules(self.primal, own, *self.avals)
        except UserCodeError as raised:
            raise Rejected(brief(raised.error)) from None
        truth = self._pullback_jaxpr(bare)
        if truth is None:
            truth = self._forward_jaxpr(bare)
        rule, trusting = None, None
        if self.gradient.has_rule:
            rule = self.trace_rule()
            auto = self._pullback_jaxpr(self.primal)
            self.has_auto = auto is not None
            trusting = auto if bare is not self.primal else None
        elif bare is not self.primal:  # what a function's gradient rests on: the user's own rules
            rule = self._pullback_jaxpr(self.primal)
            if rule is None:
                raise Rejected("a custom rule that it calls refuses these arguments")
            self._hold_to_learned(rule)
        self.kernels = kernels_of(truth, rule)
        programs = [opened(traced) for traced in (truth, rule, trusting)]
        constants = (c for p in programs if p is not None for c in p.all_constants())
        if any(isinstance(constant, jax.core.Tracer) for constant in constants):
            raise Rejected(_ENDED)
        self.loops = any(has_open_loop(p.primitives()) for p in programs[:2] if p is not None)
        self.elementwise = self.runs_elementwise(*programs[:2])
        inner = () if bare is self.primal else own_rules(self.primal, own, *self.avals)
        return Traces(programs[0], programs[1], programs[2], inner=inner, solves=is_solution(inner))

    def reads_beyond(self) -> str:
        with precision(self.dtype):
            return reads_beyond(self.primal, self.avals)

    def _pullback_jaxpr(self, fun: Callable[..., Any]) -> Any | None:
        try:
            return pullback_jaxpr(fun, self.avals, self.out_avals)
        except UserCodeError:  # reverse mode does not go through it
            return None

    def iteration(self) -> Iteration | None:
        wide = self.in_float64()
        if wide is None:
            return None
        try:
            with precision("float64"), calling_user_code():
                forward = jax.make_jaxpr(wide.primal)(*wide.avals)
                rule = self.in_dtype("float64").trace_gradient()
        except (UserCodeError, RuleError):
            return None
        return Iteration(forward, rule)

    def trace_gradient(self) -> Any:
        """The rule's program, or that of a function with the rules that it calls."""
        if self.gradient.has_rule:
            return self.trace_rule()
        return pullback_jaxpr(self.primal, self.avals, self.out_avals)

    def trace_rule(self) -> Any:
        try:
            traced = pullback_jaxpr(self.rule, self.avals, self.out_avals, self.gradient.rule)
        except UserCodeError as raised:
            message = brief(raised.error)
            certain = "pytree) structure" in message
            raise RuleError.raised(raised.error, message, certain=certain) from None
        self._hold_to_reals(traced.out_avals[len(self.out_avals) :])
        self._hold_to_learned(traced)
        return traced

    def _hold_to_learned(self, pullback: Any) -> None:
        """`Declined` where the rule gives nothing for a setting that it is handed: it is none that anybody learns."""
        learned = () if self.gradient.anew is None else self.gradient.anew.learned
        for place, leaf in enumerate(self.leaves, start=len(self.out_avals)):
            if leaf.path in learned and is_zero(pullback, place):
                raise Declined(leaf.path)

    def _hold_to_reals(self, gradients: Sequence[Any]) -> None:
        """`RuleError` for what JAX hands on until the step before it raises: a complex gradient of real numbers."""
        for leaf, aval in zip(self.leaves, gradients, strict=True):
            if jnp.issubdtype(aval.dtype, jnp.complexfloating):
                message = f"the gradient of `{leaf.path}` is complex, its argument real: what comes before it cannot be differentiated"
                raise RuleError("complex", message, silent=True, complex_of=leaf.path)

    @measured
    def rule_gradients_unbatched(
        self, point: Sequence[Array], cotangent: Sequence[Array]
    ) -> list[Array]:
        """The rule's gradients op by op, by JAX itself: nothing is compiled for one row."""
        return self.rule_pullback(point)(cotangent)

    @measured
    def rule_pullback(self, point: Sequence[Array]) -> Pullback:
        """The rule called by itself: arrays do not change, so that one call can be pulled back again."""
        with precision(self.dtype):
            _, pull = jax.vjp(self.rule, *cast(point, self.avals))

        def pulled(cotangent: Sequence[Array]) -> list[Array]:
            with self.placed(), precision(self.dtype):
                gradients = pull(tuple(cast(cotangent, self.out_avals)))
                return [np.asarray(g, np.float64) for g in gradients]

        return pulled

    def demand_rule(self) -> None:
        self.trace_rule()

    def _forward_jaxpr(self, fun: Callable[..., Any]) -> Any | None:
        """The pullback by forward mode: one tangent for each element."""

        try:
            with calling_user_code():
                both = with_jacobian(fun, len(self.avals))
                return jax.make_jaxpr(both)(*self.avals, *self.out_avals)
        except UserCodeError as raised:
            if (
                self.gradient.has_rule or fun is not self.primal
            ):  # a rule for what autodiff cannot do
                return None
            raise Rejected(
                f"neither reverse nor forward mode goes through it: {brief(raised.error)}",
                progress=TO_THE_END,
            ) from None

    # -- floats -----------------------------------------------------------------------

    @property
    def stays_on_cpu(self) -> str:
        return _LONG_LOOPS if self.loops else ""

    @measured
    def run(
        self,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        modes: Sequence[str] | None = None,
    ) -> Mapping[str, Floats]:
        """All probes in all modes; the batch is padded so that few sizes are compiled."""
        modes = modes or self.modes
        count = len(points[0])
        size = self._size(count)
        rows = [padded(a, size, self.dtype) for a in points]
        rows += [
            padded(a, size, dtype) for a, dtype in zip(cotangents, self.output_dtypes, strict=True)
        ]
        with precision(self.dtype):
            try:
                self._compile_all(size, modes)
                return {
                    mode: self._unpacked(self._compiled[mode, size](*rows), count) for mode in modes
                }
            except NotImplementedError as error:  # no factorization in bfloat16, say
                raise Rejected(f"JAX has no code for it in {self.dtype}: {brief(error)}") from None
            except jax.errors.JaxRuntimeError as error:  # a callback of the user's
                raise Rejected(f"it raises while it runs: {brief(error)}") from None

    @measured
    def run_scalars(self, xs: Array, cotangents: Sequence[float]) -> list[Array]:
        """Values and gradients by one compiled map over very many numbers, in their own dtype."""
        key = ("along", len(xs))
        if key not in self._compiled:
            aval = jax.ShapeDtypeStruct((len(xs),), xs.dtype)
            weights = [jnp.asarray(c, a.dtype) for c, a in zip(cotangents, self.out_avals, strict=True)]  # fmt: skip
            both = with_pullback(self.rule, 1)
            self._compiled[key] = (
                jax.jit(jax.vmap(lambda x: both(x, *weights))).lower(aval).compile()
            )
        return [np.asarray(out) for out in jax.tree.leaves(self._compiled[key](xs))]

    @measured
    def primal_values(self, points: Sequence[Array]) -> list[Array]:
        """The primal's values; nothing else of the user's runs."""
        count, size = len(points[0]), batch_size(len(points[0]))
        key = ("values", size)
        with precision(self.dtype):
            if key not in self._compiled:
                one = bounded(self.primal, *self.avals) if self.loops else self.primal
                rows = [jax.ShapeDtypeStruct((size, *a.shape), a.dtype) for a in self.avals]

                def mapped(*args: Any) -> Any:
                    return jax.lax.map(lambda row: tuple(one(*row)), args)

                with calling_user_code():
                    self._compiled[key] = jax.jit(mapped).lower(*rows).compile()
            try:
                values = self._compiled[key](*(padded(p, size, self.dtype) for p in points))
            except jax.errors.JaxRuntimeError as error:
                raise Rejected(f"it raises while it runs: {brief(error)}") from None
            return host(values, count)

    @measured
    def run_row(
        self, point: Sequence[Array], cotangent: Sequence[Array], mode: str, who: str
    ) -> list[Array]:
        """One probe alone, the way user code runs: jitted by itself, or eagerly."""
        avals = (*self.avals, *self.out_avals)
        args = [
            np.asarray(a).astype(aval.dtype)
            for a, aval in zip((*point, *cotangent), avals, strict=True)
        ]
        count = len(self.avals)
        with precision(self.dtype):
            fun = self.primal if who == AUTO and self.gradient.has_rule else self.rule
            if who == VALUE:
                args, avals = args[:count], self.avals
            else:
                fun = _gradients(fun, count)
            if self.loops:  # the pullback is inside: what is bounded has lost its custom rules
                fun = bounded(fun, *avals)
            outs = (jax.jit(fun) if mode == JIT else fun)(*args)
            return [np.asarray(out).astype(np.float64) for out in outs]

    def _size(self, count: int) -> int:
        """A batch size that is compiled already, if one is large enough."""
        ready = [size for mode, size in self._compiled if mode == JIT and size >= count]
        return min(ready, default=batch_size(count))

    def _one(self, *args: Any) -> Any:
        count = len(self.avals)
        both = with_pullback(self.rule, count)(*args)
        auto = None
        if self.gradient.has_rule and self.has_auto:
            auto = with_pullback(self.primal, count)(*args)[1]
        return tuple(self.rule(*args[:count])), both, auto

    def _compile_all(self, size: int, modes: Sequence[str]) -> None:
        """Lower in this thread, compile both modes at once: XLA gives up the interpreter's lock."""
        from concurrent.futures import ThreadPoolExecutor

        wanted = [mode for mode in modes if (mode, size) not in self._compiled]
        if not wanted:
            return
        lowered = [self._lowered(mode, size) for mode in wanted]
        # A kernel is compiled as a whole in any case; its interpretation crashes XLA without that pass.
        plain = [mode == JIT or bool(self.kernels) for mode in wanted]
        options = [None if p else {"xla_disable_hlo_passes": "algsimp"} for p in plain]
        with ThreadPoolExecutor(2) as pool:
            done = pool.map(
                lambda pair: pair[0].compile(compiler_options=pair[1]),
                zip(lowered, options, strict=True),
            )
            for mode, compiled in zip(wanted, done, strict=True):
                self._compiled[mode, size] = compiled

    def _lowered(self, mode: str, size: int) -> Any:
        avals = (*self.avals, *self.out_avals)
        one = bounded(self._one, *avals) if self.loops else self._one
        if mode == OP_BY_OP:
            one = stepwise(one, *avals)
        rows = [jax.ShapeDtypeStruct((size, *aval.shape), aval.dtype) for aval in avals]
        if self.elementwise:
            with contextlib.suppress(UserCodeError), calling_user_code():
                return jax.jit(jax.vmap(one)).lower(*rows)  # JAX may refuse to map a solution
        return jax.jit(lambda *args: jax.lax.map(lambda row: one(*row), args)).lower(*rows)

    def _unpacked(self, outs: Any, count: int) -> Floats:
        value, (rule_value, gradients), auto = outs
        rows = functools.partial(host, count=count)
        if not self.gradient.has_rule:
            return Floats(rows(value), rows(rule_value), None, rows(gradients))
        return Floats(
            rows(value), rows(rule_value), rows(gradients), None if auto is None else rows(auto)
        )

    # -- in other dtypes ----------------------------------------------------------------

    def in_float64(self, *, bare: bool = True) -> Self | None:
        """The subject in float64, its primal free of the user's own rules; or with those that it calls."""
        try:
            wide = self.in_dtype("float64")
            primal = wide.primal
            if bare:
                with precision("float64"):
                    primal = without_own_rules(primal, self.gradient.own, *wide.avals)
        except (Rejected, UserCodeError):  # it insists on its own dtype
            return None
        rule = wide.rule if self.gradient.has_rule or not bare else primal
        return replace(wide, primal=primal, rule=rule, kernels=self.kernels, loops=self.loops)

    # -- library functions ------------------------------------------------------------

    def written(self, names: Sequence[str], text: str) -> tuple[Any, Batched]:
        written = self.gradient.library.written(names, text)
        with calling_user_code():
            jaxpr = jax.make_jaxpr(written)(*self.avals, *self.out_avals)

        def run(points: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
            rows = [
                a.astype(v.dtype)
                for a, v in zip((*points, *cotangents), (*self.avals, *self.out_avals), strict=True)
            ]
            with precision(self.dtype):
                outs = jax.jit(lambda *args: jax.lax.map(lambda row: written(*row), args))(*rows)
            return host(jax.tree.leaves(outs), len(rows[0]))

        return jaxpr, run


def _gradients(fun: Callable[..., Any], count: int) -> Callable[..., Any]:
    """(leaves…, cotangents…) → gradients."""
    both = with_pullback(fun, count)
    return lambda *args: both(*args)[1]
