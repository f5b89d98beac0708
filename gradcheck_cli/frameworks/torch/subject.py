"""A torch custom gradient at one signature: run eagerly point by point, traced once by torchax."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch

from gradcheck_cli.frameworks.jax.subject import POINTWISE, brief, precision, with_pullback
from gradcheck_cli.frameworks.seam import (
    AUTO,
    EAGER,
    VALUE,
    Declined,
    Floats,
    Rejected,
    RuleError,
    Sample,
    Spelled,
    StandIn,
    Traces,
    Way,
)
from gradcheck_cli.frameworks.torch.bridge import Untraceable, traced
from gradcheck_cli.frameworks.torch.context import Context
from gradcheck_cli.frameworks.torch.gradient import TorchGradient, of_function
from gradcheck_cli.frameworks.torch.pull import gradients
from gradcheck_cli.frameworks.torch.rules import kept
from gradcheck_cli.inputs.spec import OMITTED, Leaf, Signature, filled
from gradcheck_cli.reals.program import Program, build

Array = np.ndarray[Any, Any]
Tensors = Sequence[Any]

# A plain point, at which it is tried whether function and rule run at all.
_PLAIN = (0.5, 0.75, 0.25, 1.5, 0.625, 1.25)
_REFUSED = object()
_TRIED_AGAIN = 3  # rows of a batch that are run alone, to see that they do not know of each other


def fit_subject(gradient: TorchGradient, signature: Signature, dtype: str) -> TorchSubject:
    """Run it at a plain point; `Rejected` if the function refuses it."""
    if not signature.leaves:
        raise Rejected("no differentiable argument")
    call = _Call(gradient, signature, getattr(torch, dtype))
    points = [_plain(leaf.shape, call.dtype) for leaf in signature.leaves]
    try:
        with torch.no_grad():
            call.primal(points)
        outputs = call.outputs(points)
    except Exception as error:
        raise Rejected(brief(error)) from None
    if not outputs:
        raise Rejected("it returns no float tensor that can be differentiated")
    call.kept = tuple(outputs)
    shapes = [tuple(out.shape) for out in outputs.values()]
    names = [str(out.dtype).removeprefix("torch.") for out in outputs.values()]
    return TorchSubject(gradient, signature, dtype, call, shapes, names)


def _plain(shape: tuple[int, ...], dtype: Any) -> Any:
    size = int(np.prod(shape, dtype=int))
    return torch.tensor(np.resize(_PLAIN, size).reshape(shape), dtype=dtype)


@dataclass(slots=True)
class _Call:
    """The function of its leaves alone; `kept` are the numbers of the outputs that are judged."""

    gradient: TorchGradient
    signature: Signature
    dtype: Any
    kept: tuple[int, ...] = ()
    _defaults: dict[str, Any] | None = None

    def inputs(self, leaves: Tensors) -> list[Any]:
        """All inputs in their order, defaults spelled out: `apply` takes no keywords."""
        supply = iter(leaves)
        if self._defaults is None:
            self._defaults = {p.name: p.default for p in self.gradient.parameters()}
        return [
            self._defaults[name] if value is OMITTED else filled(value, supply, _fixed)
            for name, value in self.signature.arguments
        ]

    def ask(self, function: Callable[..., Any], leaves: Tensors, *before: Any) -> list[Any]:
        """The function at these leaves; its outputs in one line."""
        inputs = self.inputs(leaves)
        keywords = self.signature.keywords
        names = [name for name, _ in self.signature.arguments]
        given = dict(zip(names, inputs, strict=True))
        plain = [given[name] for name in names if name not in keywords]
        return _line(function(*before, *plain, **{name: given[name] for name in names if name in keywords}))  # fmt: skip

    def primal(self, leaves: Tensors) -> tuple[list[Any], Context]:
        """The forward's body alone, with the context that it fills."""
        context = Context(tuple(isinstance(v, Leaf) for _, v in self.signature.arguments))
        return self.ask(self.gradient.forward, leaves, context), context

    def outputs(self, leaves: Tensors) -> dict[int, Any]:
        """Outputs of the rule that are floats and differentiable, by their number."""
        held = [x.clone().requires_grad_() for x in leaves]
        outs = self.ask(self.gradient.rule, [x.clone() for x in held])
        return {
            i: out
            for i, out in enumerate(outs)
            if isinstance(out, torch.Tensor) and out.is_floating_point() and out.requires_grad
        }

    def judged(self, outs: Sequence[Any]) -> list[Any]:
        return [outs[i] for i in self.kept]

    def pulled_back(self, outs: Sequence[Any], context: Context, cotangents: Tensors) -> list[Any]:
        """The backward's gradients for each leaf, as torch would take them."""
        assert self.gradient.backward is not None
        weights = dict(zip(self.kept, cotangents, strict=True))
        given = [_cotangent(i, out, weights, context) for i, out in enumerate(outs)]
        pulled = self.gradient.backward(context, *given)
        pulled = list(pulled) if isinstance(pulled, (tuple, list)) else [pulled]
        found = []
        for position, (_, value) in enumerate(self.signature.arguments):
            if isinstance(value, Leaf):
                found.append(pulled[position] if position < len(pulled) else None)
        return found


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
        return torch.tensor(array.astype(np.int64) if array.dtype.kind in "iu" else array)
    return value


@dataclass(slots=True)
class TorchSubject:
    """See `Subject` in the seam."""

    gradient: TorchGradient
    signature: Signature
    dtype: str
    call: _Call
    outputs: list[tuple[int, ...]]
    output_dtypes: list[str]
    has_auto: bool = True
    elementwise: bool = False
    _traces: Traces | None = None

    @property
    def leaves(self) -> Sequence[Leaf]:
        return self.signature.leaves

    @property
    def sample(self) -> Sample | None:
        return None

    @property
    def has_rule(self) -> bool:
        return self.gradient.has_rule

    @property
    def modes(self) -> Sequence[str]:
        return (EAGER,)

    @property
    def differentiable(self) -> bool:
        traced = self.traces().primal is not None
        # Of a plain function, float64 autograd would trust the very rules that are in question.
        return self.has_auto and (traced or self.has_rule)

    def wide(self) -> TorchSubject | None:
        try:
            return fit_subject(self.gradient, self.signature, "float64")
        except Rejected:  # it insists on its own dtype
            return None

    # -- traces -------------------------------------------------------------------------

    def traces(self) -> Traces:
        """Both programs, traced once, after the rule was seen to run."""
        if self._traces is None:
            self._try_rule()
            with precision(self.dtype):
                self._traces = self._trace()
        return self._traces

    def _try_rule(self) -> None:
        points = [_plain(leaf.shape, self.call.dtype) for leaf in self.leaves]
        cotangents = self.cotangents([np.ones(shape) for shape in self.outputs])
        if self.has_rule:
            try:
                self._native(self.gradient.rule, points, cotangents)
            except Exception as error:
                message = brief(error)
                certain = "number of gradients" in message
                raise RuleError(type(error).__name__, message, certain=certain) from None
            self._decline(points, cotangents)
        try:
            self.has_auto = self._auto(points, cotangents) is not None
        except Exception:  # autograd does not go through the body
            self.has_auto = False

    def _decline(self, points: Tensors, cotangents: Tensors) -> None:
        """An argument whose gradient is None and that may be a plain number is one, such as a slope."""
        for (name, value), x, gradient in zip(
            [pair for pair in self.signature.arguments if isinstance(pair[1], Leaf)],
            points, self._bare_gradients(points, cotangents), strict=True,
        ):  # fmt: skip
            if gradient is not None or len(points) == 1 or not isinstance(value, Leaf):
                continue
            others = [float(x.reshape(-1)[0]) if x is y else y for y in points]
            if self._bare_gradients(others, cotangents)[0] is not _REFUSED:
                self.gradient.declined.add(name)
                raise Declined(f"`{name}` is a number, not a tensor")

    def _bare_gradients(self, leaves: Sequence[Any], cotangents: Tensors) -> list[Any]:
        """What backward itself returns, None for None; refused where it raises."""
        try:
            with torch.no_grad():
                outs, context = self.call.primal(leaves)
                if any(
                    not isinstance(t, torch.Tensor) for t in context.saved_tensors if t is not None
                ):
                    return [_REFUSED] * len(leaves)
                return self.call.pulled_back(outs, context, cotangents)
        except Exception:
            return [_REFUSED] * len(leaves)

    def _trace(self) -> Traces:
        try:
            forward = traced(self._forward, self._avals())
        except Exception as error:
            if not isinstance(error, Untraceable) and all(not leaf.shape for leaf in self.leaves):
                # torch takes a number where it means a vector; JAX does not.
                raise Rejected(self._why("forward", error)) from None
            return Traces(None, None, reason=self._why("forward", error))
        primal, trusting = self._pulled_back(forward), self._trusting()
        if not self.has_rule:
            return Traces(primal, trusting)
        out_avals = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
        try:
            rule = build(traced(self._rule, (*self._avals(), *out_avals)))
        except Exception as error:
            return Traces(primal, None, reason=self._why("backward", error))
        names = rule.primitives() | (primal.primitives() if primal is not None else frozenset())
        self.elementwise = names <= POINTWISE and all(not leaf.shape for leaf in self.leaves)
        return Traces(primal, rule, trusting)

    def _pulled_back(self, forward: Any) -> Program | None:
        """Value and pullback of a traced forward, where autodiff goes through it."""
        body = jax.extend.core.jaxpr_as_fun(forward)
        out_avals = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
        both = with_pullback(lambda *xs: tuple(body(*xs)), len(self.leaves))
        try:
            return build(jax.make_jaxpr(both)(*self._avals(), *out_avals))
        except Exception:
            return None

    def _trusting(self) -> Program | None:
        """The same with the rules of the Functions that the body calls, if it calls any."""
        try:
            with kept() as met:
                forward = traced(self._forward, self._avals())
                return self._pulled_back(forward) if met else None
        except Exception:
            return None

    def _why(self, which: str, error: Exception) -> str:
        said = str(error) if isinstance(error, Untraceable) else brief(error)
        said = said.partition(" The error occurred")[0]
        return f"its {which} could not be traced over the reals: {said[:240]}"

    def _avals(self) -> list[Any]:
        return [jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(self.dtype)) for leaf in self.leaves]

    def _forward(self, *leaves: Any) -> Any:
        outs, _ = self.call.primal(leaves)
        return tuple(self.call.judged(outs))

    def _rule(self, *args: Any) -> Any:
        leaves, cotangents = args[: len(self.leaves)], args[len(self.leaves) :]
        outs, context = self.call.primal([x.clone() for x in leaves])
        values = tuple(self.call.judged(outs))
        found = self.call.pulled_back(outs, context, cotangents)
        pulled = (
            torch.zeros_like(x) if g is None else _summed_to(g, x)
            for x, g in zip(leaves, found, strict=True)
        )
        return (*values, *pulled)

    # -- floats ---------------------------------------------------------------------------

    def run(
        self,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        modes: Sequence[str] | None = None,
    ) -> Mapping[str, Floats]:
        """All probes, as one tensor where each element is a point, else one after the other."""
        if self.elementwise and len(points[0]) > _TRIED_AGAIN:
            batch = self._whole(points, cotangents)
            if batch is not None:
                return {EAGER: batch}
        rows = [self._one([p[i] for p in points], [c[i] for c in cotangents]) for i in range(len(points[0]))]  # fmt: skip
        return {EAGER: self._stacked(rows)}

    def values(self, points: Sequence[Array]) -> list[Array]:
        """NaN where the function raises."""
        nothing = [np.full(shape, np.nan) for shape in self.outputs]
        rows = []
        with torch.no_grad():
            for i in range(len(points[0])):
                leaves = [torch.tensor(p[i], dtype=self.call.dtype) for p in points]
                try:
                    rows.append(_host(self.call.judged(self.call.primal(leaves)[0])))
                except Exception:
                    rows.append(nothing)
        return [np.stack(column) for column in zip(*rows, strict=True)]

    def _whole(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Floats | None:
        """The batch as one array; None if its rows turn out to know of each other."""
        try:
            made = self._one(points, cotangents)
        except Exception:
            return None
        count = len(points[0])
        if made is None or any(a.shape != (count,) for part in made for a in part or ()):
            return None
        for i in np.linspace(0, count - 1, _TRIED_AGAIN).astype(int).tolist():
            alone = self._one([p[i] for p in points], [c[i] for c in cotangents])
            if alone is None or not _alike(made, alone, i):
                return None
        return Floats(made.value, made.rule_value, made.custom, made.auto)

    def _one(self, point: Sequence[Any], cotangent: Sequence[Any]) -> _Row | None:
        """One call of each: value, the rule's value and gradients, autograd's; None if it raises."""
        leaves = [torch.tensor(np.asarray(p), dtype=self.call.dtype) for p in point]
        cotangents = self.cotangents(cotangent)
        try:
            with torch.no_grad():
                plain = self.call.judged(self.call.primal([x.clone() for x in leaves])[0])
            rule_value, pulled = self._native(self.gradient.rule, leaves, cotangents)
        except Exception:
            return None
        if not self.has_rule:
            return _Row(_host(plain), _host(rule_value), None, _host(pulled))
        auto = None
        if self.has_auto:
            try:
                auto = self._auto(leaves, cotangents)
            except Exception:
                auto = [torch.full_like(x, torch.nan) for x in leaves]
        return _Row(_host(plain), _host(rule_value), _host(pulled), None if auto is None else _host(auto))  # fmt: skip

    def _native(
        self, rule: Callable[..., Any], leaves: Tensors, cotangents: Tensors
    ) -> tuple[list[Any], list[Any]]:
        """What training gets: the value and the gradients of this call."""
        held = [x.clone().requires_grad_() for x in leaves]
        outs = self.call.judged(self.call.ask(rule, [x.clone() for x in held]))
        kept = [c.clone() for c in cotangents]  # a rule may write into what it is given
        return outs, _zeros_for_none(gradients(outs, held, kept), held)

    def _auto(self, leaves: Tensors, cotangents: Tensors) -> list[Any] | None:
        """Autograd through the forward's body; None where it is cut off."""
        held = [x.clone().requires_grad_() for x in leaves]
        outs, _ = self.call.primal([x.clone() for x in held])
        judged = self.call.judged(outs)
        if not all(out.requires_grad for out in judged):
            return None
        return _zeros_for_none(gradients(judged, held, cotangents), held)

    def cotangents(self, arrays: Sequence[Any]) -> list[Any]:
        return [
            torch.tensor(np.asarray(a), dtype=getattr(torch, name))
            for a, name in zip(arrays, self.output_dtypes, strict=True)
        ]

    def _stacked(self, rows: Sequence[_Row | None]) -> Floats:
        """One array for each output and argument; rows at which it raised are NaN, and named."""
        first = next((row for row in rows if row is not None), None)
        if first is None:
            raise Rejected("it raises at every point that was tried")
        nothing = _Row(*([np.full_like(a, np.nan) for a in part or ()] for part in first))
        each = [list(row or nothing) for row in rows]
        value, rule_value, custom, auto = (
            [np.stack(column) for column in zip(*parts, strict=True)]
            for parts in zip(*([p or [] for p in row] for row in each), strict=True)
        )
        refused = np.array([row is None for row in rows], bool)
        return Floats(
            value, rule_value, None if first.custom is None else custom,
            None if first.auto is None else auto, refused if refused.any() else None,
        )  # fmt: skip

    def run_once(
        self, point: Sequence[Array], cotangent: Sequence[Array], mode: str, who: str
    ) -> list[Array]:
        row = self._one(point, cotangent)
        if row is None:
            raise Rejected("it raises there")
        if who == VALUE:
            return row.rule_value
        return (row.auto if who == AUTO else row.custom) or []

    def ways(self) -> Sequence[Way]:
        from gradcheck_cli.frameworks.torch.ways import ways

        return ways(self)

    # -- stand-ins --------------------------------------------------------------------------

    def stand_ins(self) -> Iterator[StandIn]:
        """Stable library functions at this signature, spelled for its arguments."""
        from gradcheck_cli.frameworks.torch.stable import STABLE

        plain = Signature(tuple((leaf.path, leaf) for leaf in self.leaves))
        scalar = all(not leaf.shape for leaf in self.leaves)
        names = ", ".join(leaf.path for leaf in self.leaves)
        for stable in STABLE:
            if stable.arrays and scalar:
                continue
            gradient = of_function(stable.function, stable.value, self.gradient.place)
            try:
                subject = fit_subject(gradient, plain, self.dtype)
                subject.traces()
            except (Rejected, RuleError):
                continue
            text = stable.gradient.format(x=names)
            yield StandIn(
                subject, stable.value.format(x=names), text, functools.partial(self._spelled, text)
            )

    def _spelled(self, text: str) -> Spelled | None:
        """A derivative written as text: (leaves…, cotangents…) → (gradients…)."""
        names = [leaf.path for leaf in self.leaves]
        if not all(name.isidentifier() for name in names):
            return None
        scope = {"torch": torch, "F": torch.nn.functional}
        try:
            written = eval(f"lambda {', '.join(names)}, ct: ({text},)", scope)  # noqa: S307
            out_avals = [jax.ShapeDtypeStruct(s, jnp.dtype(self.dtype)) for s in self.outputs]
            with precision(self.dtype):
                program: Program = build(traced(written, (*self._avals(), *out_avals)))
        except Exception:  # it does not fit these arguments
            return None

        def run(points: Sequence[Array], cotangents: Sequence[Array]) -> list[Array]:
            rows = []
            for i in range(len(points[0])):
                given = [torch.tensor(p[i], dtype=self.call.dtype) for p in points]
                rows.append(_host(written(*given, *self.cotangents([c[i] for c in cotangents]))))
            return [np.stack(column) for column in zip(*rows, strict=True)]

        return Spelled(program, run)


@dataclass(frozen=True, slots=True)
class _Row:
    """Numbers of one call (or of many, as one array)."""

    value: list[Array]
    rule_value: list[Array]
    custom: list[Array] | None
    auto: list[Array] | None

    def __iter__(self) -> Iterator[list[Array] | None]:
        yield from (self.value, self.rule_value, self.custom, self.auto)


def _alike(whole: _Row, alone: _Row, i: int) -> bool:
    """The same as alone, but for the last digit: vectorised loops round their own way."""
    for many, one in zip(whole, alone, strict=True):
        for a, b in zip(many or (), one or (), strict=True):
            size = np.abs(b).astype(np.float64)
            if not np.allclose(a[i], b, rtol=2.0**-16, atol=2.0**-120 * (1 + size), equal_nan=True):
                return False
    return True


def _zeros_for_none(found: Sequence[Any], held: Tensors) -> list[Any]:
    return [torch.zeros_like(x) if g is None else g for g, x in zip(found, held, strict=True)]


def _host(tensors: Tensors) -> list[Array]:
    return [t.detach().to(torch.float64).numpy() for t in tensors]


def _summed_to(gradient: Any, leaf: Any) -> Any:
    """torch sums a gradient over what it was broadcast along, and casts it."""
    if gradient.shape != leaf.shape:
        gradient = gradient.sum_to_size(leaf.shape)
    return gradient.to(leaf.dtype)
