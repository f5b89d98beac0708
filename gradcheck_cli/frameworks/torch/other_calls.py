"""Other ways to make a torch call: layouts, subsets of arguments, twice, in place.

Each gives gradients and those of the plain call with the same numbers. Long because there are many ways,
each of them short, and they share how a call is made.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.frameworks.shared.other_calls import (
    ELSEWHERE,
    IMPURE,
    Body,
    Derivatives,
    EagerCalls,
    Numbers,
    Result,
    alike,
    crossed,
    named,
    raising_counts,
    shares,
    twice,
)
from gradcheck_cli.frameworks.torch.call import host, tensor
from gradcheck_cli.frameworks.torch.private_api import version_of
from gradcheck_cli.frameworks.torch.pull import gradients
from gradcheck_cli.frameworks.torch.subject import TorchSubject
from gradcheck_cli.subject.other_calls import OtherCall, WentWrong
from gradcheck_cli.subject.results import Array
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

Tensors = Sequence[Any]

KEPT = RuleName.TENSOR_KEPT_ON_CTX
_OF_COMPLEX = re.compile(
    r"conj_physical|resolve_conj|is_complex|complex\d*|cfloat|cdouble|mH|H|imag|adjoint|vdot|polar|view_as_(?:complex|real)"
)
_SPOKEN = re.compile(r"\bcomplex\b", re.IGNORECASE)
_OF_PAIRS = re.compile(r"\bpairs?\b|, 2\]")
_PARTS = (torch.float16, torch.float32, torch.float64)  # of which there are complex numbers
_FORWARD = "{}, ⟨cotangent, jvp(v)⟩ is {} and ⟨rule(cotangent), v⟩ is {}"
_COMPLEX = "{}, re + 0.75 im of the gradient is {}, of autograd through the forward's body {}"


def other_calls(subject: TorchSubject) -> list[OtherCall]:
    """The other calls that apply to this signature."""
    own = _Ways(subject)
    calls = [
        OtherCall(
            "with non-contiguous inputs",
            own.laid_out(_strided_planes if subject.kernels else _strided),
        ),
        OtherCall("with an expanded cotangent", own.expanded),
        OtherCall("with a non-contiguous cotangent", own.strided_cotangents),
        OtherCall("after a first backward", own.after_a_backward),
        OtherCall("called again", own.again),
        crossed(own.between),
        twice(own.second, "autograd through the forward"),
    ]
    cls = getattr(inspect.unwrap(subject.gradient.rule), "__self__", None)
    if _defines(cls, "backward") or _defines(cls, "vjp"):
        calls.append(OtherCall("with what it keeps", own.keeping))
        calls.append(OtherCall("under autocast", own.autocast))
    if _knows_complex_numbers(cls):
        calls.append(OtherCall("with complex inputs", own.of_complex, says=_COMPLEX))
    if _defines(cls, "setup_context"):
        calls.append(OtherCall("under torch.func.vjp", own.functional))
    if _defines(cls, "jvp"):
        calls.append(
            OtherCall("in forward mode", own.forward_mode, says=_FORWARD, beside_formula=True)
        )
    if getattr(cls, "generate_vmap_rule", False) or _defines(cls, "vmap"):
        calls.append(OtherCall("under vmap", own.under_vmap))
    if any(len(leaf.shape) == 4 for leaf in subject.leaves):
        calls.append(OtherCall("with inputs in channels-last layout", own.laid_out(_channels_last)))
    if alike(subject.leaves) is not None:
        calls.append(OtherCall("with one tensor for two arguments", own.one_for_two))
    if len(subject.leaves) > 1:
        calls += map(own.only, range(len(subject.leaves)))
    if len(subject.outputs) > 1:
        calls += map(own.of_output, range(len(subject.outputs)))
    return [named(way, subject) for way in calls]


def _knows_complex_numbers(cls: Any) -> bool:
    """Does a Function's docstring speak of complex numbers, or its text ask for their parts? A `conj` of its own may be of pairs."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(cls))) if cls else ast.Module([], [])
    except (OSError, TypeError, ValueError, SyntaxError):
        return False
    nodes = list(ast.walk(tree))
    told = [
        ast.get_docstring(n) or "" for n in nodes if isinstance(n, (ast.ClassDef, ast.FunctionDef))
    ]
    asked = [n.attr for n in nodes if isinstance(n, ast.Attribute) and not _is_kept(n)]
    names = [n for n in nodes if isinstance(n, ast.Name)]
    own = {n.id for n in names if isinstance(n.ctx, ast.Store)}  # `adjoint = []`
    asked += [n.id for n in names if n.id not in own | {"H"}]
    conjugates = any(
        isinstance(n, ast.Attribute) and n.attr in ("conj", "conjugate") for n in nodes
    )
    spoken = any(_SPOKEN.search(text) and not _OF_PAIRS.search(text) for text in told)
    return spoken or conjugates or any(map(_OF_COMPLEX.fullmatch, asked))


def _is_kept(node: ast.Attribute) -> bool:
    """Is it what a rule keeps of its own: `ctx.H`?"""
    return isinstance(node.value, ast.Name) and node.value.id in ("ctx", "self")


def _defines(cls: Any, name: str) -> bool:
    """Has the user's Function a method of its own for this?"""
    plain = torch.autograd.Function
    return (
        isinstance(cls, type)
        and issubclass(cls, plain)
        and getattr(cls, name, None) is not getattr(plain, name)
    )


class _Ways(EagerCalls[Any]):
    def __init__(self, subject: TorchSubject) -> None:
        super().__init__(subject.leaves)
        self.subject = subject

    # -- pieces -----------------------------------------------------------------------

    def tensors(self, point: Numbers) -> list[Any]:
        return [tensor(p, self.subject.call.dtype) for p in point]

    def rule(self, tensors: Tensors) -> list[Any]:
        call = self.subject.call
        return call.judged(call.ask(self.subject.gradient.rule, tensors))

    def primal(self, tensors: Tensors) -> list[Any]:
        return self.subject.call.judged(self.subject.call.primal_outputs(tensors))

    def call(self, point: Numbers, among: Callable[[list[Any]], list[Any]] = list) -> _Recorded:
        held = [x.requires_grad_() for x in self.tensors(point)]
        outs = self.rule(among([x.clone() for x in held]))
        return _Recorded(self.subject, outs, held)

    def call_elsewhere(self, point: Numbers) -> None:
        self.rule([(ELSEWHERE * x).requires_grad_() for x in self.tensors(point)])

    # -- layouts ------------------------------------------------------------------------

    def laid_out(self, turned: Callable[[Any], Any]) -> Callable[[Numbers, Numbers], Result]:
        """The way with inputs that lie otherwise in memory."""

        def run(point: Numbers, cotangent: Numbers) -> Result:
            with raising_counts():
                got = self.call(point, lambda tensors: list(map(turned, tensors))).pull(cotangent)
            return got, self.plain(point, cotangent)

        return run

    def strided_cotangents(self, point: Numbers, cotangent: Numbers) -> Result:
        weights = [_strided(w) for w in self.subject.cotangents(cotangent)]
        with raising_counts():
            got = self.call(point).pull_tensors(weights)
        return got, self.plain(point, cotangent)

    def expanded(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients for the cotangent of `out.sum().backward()`: all elements are one place in memory."""
        ones = [np.ones_like(c) for c in cotangent]
        spread = [w.new_ones(()).expand(w.shape) for w in self.subject.cotangents(cotangent)]
        with raising_counts():
            got = self.call(point).pull_tensors(spread)
        return got, self.plain(point, ones)

    # -- subsets --------------------------------------------------------------------------

    def only(self, number: int) -> OtherCall:
        """One argument alone requires a gradient: `ctx.needs_input_grad` is False for the others."""

        def alone(point: Numbers, cotangent: Numbers) -> list[Array] | None:
            leaves, weights = self.tensors(point), self.subject.cotangents(cotangent)
            held = leaves[number].requires_grad_()
            inputs = [x.clone() for x in leaves]
            outs = [out for out in self.rule(inputs) if out.requires_grad]
            if len(outs) != len(weights):
                return None
            return _host(gradients(outs, [held], weights), [held])

        def run(point: Numbers, cotangent: Numbers) -> Result:
            with raising_counts():
                got = alone(point, cotangent)
            if got is None:
                return None
            parts = [got[0] if k == number else None for k in range(len(self.leaves))]
            return parts, self.plain(point, cotangent)

        return OtherCall(f"when only {self.leaves[number].path} requires a gradient", run)

    # -- twice, and in place ----------------------------------------------------------------

    def after_a_backward(self, point: Numbers, cotangent: Numbers) -> Result:
        """A second backward beside the first, which may have overwritten what it reads."""
        weights = self.subject.cotangents(cotangent)
        held = [x.requires_grad_() for x in self.tensors(point)]
        inputs = [x.clone() for x in held]
        recorded = _Recorded(self.subject, self.rule(inputs), held)
        kept = [w.clone() for w in weights]
        versions = list(map(version_of, inputs))
        first = recorded.pull_tensors(weights, keep=True)
        if any(not torch.equal(a, b) for a, b in zip(weights, kept, strict=True)):
            raise WentWrong(IMPURE, Severity.ERROR, "the backward changes its cotangent in place")
        if any(version_of(x) != v for x, v in zip(inputs, versions, strict=True)):
            raise WentWrong(IMPURE, Severity.ERROR, "the backward changes its inputs in place")
        with raising_counts():
            return recorded.pull_tensors(weights), first

    def again(self, point: Numbers, cotangent: Numbers) -> Result:
        """A second call beside the first, which must leave its inputs alone unless they are marked dirty."""
        leaves = self.tensors(point)
        with torch.no_grad():
            inputs = [x.clone() for x in leaves]
            _, context = self.subject.call.primal(inputs)
        dirty = {id(t) for t in context.dirty_tensors}
        changed = [
            leaf.path
            for leaf, a, b in zip(self.leaves, leaves, inputs, strict=True)
            if id(b) not in dirty and not torch.equal(a, b) and not a.isnan().any()
        ]
        if changed:
            message = f"the forward changes {', '.join(changed)} in place without `ctx.mark_dirty`"
            raise WentWrong(IMPURE, Severity.ERROR, message)
        before = self.plain(point, cotangent)
        return self.call(point).pull(cotangent), before

    def keeping(self, point: Numbers, cotangent: Numbers) -> Result:
        """A warning if `ctx` keeps inputs or outputs otherwise than by `save_for_backward`."""
        leaves = self.tensors(point)
        with torch.no_grad():
            outs, context = self.subject.call.primal(leaves)
        kept = {id(v): name for name, v in vars(context).items() if isinstance(v, torch.Tensor)}
        for what, tensors in (("an output", outs), ("an input", leaves)):
            name = next((kept[id(t)] for t in tensors if id(t) in kept), None)
            if name is not None:
                message = (
                    f"`ctx.{name}` keeps {what}: torch sees no later change of it in place, "
                    "and an output kept so is never freed; use `ctx.save_for_backward`"
                )
                raise WentWrong(
                    KEPT, Severity.WARNING if what == "an output" else Severity.NOTE, message
                )
        return None

    def autocast(self, point: Numbers, cotangent: Numbers) -> Result:
        """A note if the backward raises after a forward in reduced precision: it meets two dtypes."""
        held = [x.requires_grad_() for x in self.tensors(point)]
        weights = self.subject.cotangents(cotangent)
        try:
            with calling_user_code(), torch.autocast(held[0].device.type, dtype=torch.bfloat16):
                outs = self.rule([x.clone() for x in held])
        except UserCodeError:  # the function is not for that
            return None
        with raising_counts(severity=Severity.NOTE, who="the backward"):
            gradients(outs, held, [w.to(o.dtype) for w, o in zip(weights, outs, strict=True)])
        return None

    # -- transformations ---------------------------------------------------------------------

    def forward_mode(self, point: Numbers, cotangent: Numbers) -> Result:
        """⟨ct, jvp(v)⟩ = ⟨rule(ct), v⟩ for a tangent v that no two elements share."""
        from torch.autograd import forward_ad

        leaves, weights = self.tensors(point), self.subject.cotangents(cotangent)
        tangents = [tensor(shares(x.numel()), x.dtype).reshape(x.shape) for x in leaves]
        pulled = self.plain(point, cotangent)
        product = sum(float((g * host(t)).sum()) for g, t in zip(pulled, tangents, strict=True))
        with raising_counts(), forward_ad.dual_level():
            duals = [forward_ad.make_dual(x, t) for x, t in zip(leaves, tangents, strict=True)]
            outs = [forward_ad.unpack_dual(out).tangent for out in self.rule(duals)]
            pairs = zip(outs, weights, strict=True)
            forward = _copied(sum((o * w).sum() for o, w in pairs if o is not None))
        return [forward], [np.array(product)]

    def functional(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients by `torch.func.vjp`, which a Function with `setup_context` is made for."""
        leaves, weights = self.tensors(point), self.subject.cotangents(cotangent)
        with raising_counts():
            got = [_copied(g) for g in self._functionally(leaves, weights)]
        return got, self.plain(point, cotangent)

    def under_vmap(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients of two copies at once, by the rule for vmap that the Function has."""
        leaves, weights = self.tensors(point), self.subject.cotangents(cotangent)

        def pull(*args: Any) -> Any:
            return self._functionally(args[: len(leaves)], args[len(leaves) :])

        with raising_counts():
            stacked = [torch.stack([a, a]) for a in (*leaves, *weights)]
            got = [_copied(g[1]) for g in torch.func.vmap(pull)(*stacked)]
        return got, self.plain(point, cotangent)

    def _functionally(self, leaves: Tensors, weights: Tensors) -> Any:
        def ruled(*held: Any) -> tuple[Any, ...]:
            return tuple(self.rule([x.clone() for x in held]))  # one may write into its input

        back: Any = torch.func.vjp(ruled, *leaves)[1]
        return back(tuple(weights))

    def of_complex(self, point: Numbers, cotangent: Numbers) -> Result:
        """The gradients at complex inputs, beside autograd through the body."""
        expected = self._in_complex(self.primal, point)
        got = self._in_complex(self.rule, point)
        return None if expected is None or got is None else (got, expected)

    def _in_complex(self, body: Body[Any], point: Numbers) -> list[Array] | None:
        """Of outputs that are complex there, too, both parts have a weight."""
        leaves = self.tensors(point)
        if any(x.dtype not in _PARTS for x in leaves):
            return None
        turned = [torch.complex(x, x.flip(tuple(range(x.dim()))) * 0.5 + 0.25) for x in leaves]
        held = [x.clone().requires_grad_() for x in turned]
        try:
            with calling_user_code():
                outs = body([x.clone() for x in held])
                upstream = [
                    tensor((-0.5) ** i * shares(o.numel()).reshape(o.shape), o.dtype)
                    for i, o in enumerate(outs)
                ]
                pulled = gradients(outs, held, upstream)
        except UserCodeError:  # it is not for complex numbers
            return None
        mixed = [None if g is None else g.real + 0.75 * g.imag for g in pulled]
        return _host(mixed, leaves)

    # -- second order ------------------------------------------------------------------------

    def second(self, point: Numbers, cotangent: Numbers) -> Result:
        """The way that every framework has, for what has a backward."""
        return None if self.subject.gradient.backward is None else super().second(point, cotangent)

    def derivatives(
        self, body: Body[Any], point: Numbers, cotangent: Numbers
    ) -> Derivatives | None:
        """First and second derivatives; None if it raises, as `once_differentiable` does."""
        # `once_differentiable` raises only where the cotangent asks for a gradient, as a loss' does.
        weights = [w.requires_grad_() for w in self.subject.cotangents(cotangent)]
        held = [x.requires_grad_() for x in self.tensors(point)]
        zero = held[0].new_zeros(())
        try:
            with calling_user_code():
                outs = body([x.clone() for x in held])
                loss = sum(((o * w).sum() for o, w in zip(outs, weights, strict=True)), zero)
                grads = torch.autograd.grad(loss, held, allow_unused=True, create_graph=True)
                total = sum((_weighed(g) for g in grads if g is not None), zero)
                first = _host(grads, held)
                if not total.requires_grad:
                    return first, [np.zeros(tuple(x.shape)) for x in held]
                if _raises(total.grad_fn):
                    return None
                return first, _host(torch.autograd.grad(total, held, allow_unused=True), held)
        except UserCodeError:
            return None


@dataclass(frozen=True, slots=True)
class _Recorded:
    """Outputs of one call, and the leaves that it is pulled back to."""

    subject: TorchSubject
    outs: Tensors
    held: Tensors

    def pull(self, cotangent: Numbers, only: int | None = None) -> list[Array]:
        weights = self.subject.cotangents(cotangent)
        if only is None:
            return self.pull_tensors(weights)
        return _host(gradients([self.outs[only]], self.held, [weights[only]]), self.held)

    def pull_tensors(self, weights: Tensors, *, keep: bool = False) -> list[Array]:
        return _host(gradients(self.outs, self.held, weights, keep=keep), self.held)


def _copied(value: Any) -> Array:
    return host(value).copy()


def _raises(node: Any) -> bool:
    """Does a graph hold the node that raises when it is differentiated?"""
    seen, left = set(), [node]
    while left:
        each = left.pop()
        if each is None or each in seen:
            continue
        if type(each).__name__ == "Error":
            return True
        seen.add(each)
        left += [before for before, _ in each.next_functions]
    return False


def _weighed(gradient: Any) -> Any:
    line = tensor(shares(gradient.numel()), gradient.dtype)
    return (gradient.reshape(-1) * line).sum()


def _strided(x: Any) -> Any:
    """A tensor with the same numbers in every other place in memory."""
    return torch.stack([x, torch.full_like(x, torch.nan)], dim=-1)[..., 0]


def _strided_planes(x: Any) -> Any:
    """A tensor with gaps in memory, but a vector as it is: a kernel takes a parameter in one piece."""
    return _strided(x) if x.dim() > 1 else x


def _channels_last(x: Any) -> Any:
    return x.to(memory_format=torch.channels_last) if x.dim() == 4 else x


def _host(gradients: Sequence[Any], held: Sequence[Any]) -> list[Array]:
    return [
        np.zeros(tuple(x.shape)) if g is None else host(g).copy()
        for g, x in zip(gradients, held, strict=True)
    ]
