"""Subjects that run eagerly, one call after the other, and are traced once into jaxprs.

A framework of that kind says how one call is made and how its two functions are traced; the
batches, the programs over the reals and what raises where are the same for all of them.
"""

from __future__ import annotations

import abc
import contextlib
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from gradcheck_cli.frameworks.shared.draws import another
from gradcheck_cli.frameworks.shared.fitted import Batched, FittedGradient
from gradcheck_cli.frameworks.shared.rows import (
    SEEN_ALONE,
    Row,
    row_by_row,
    rows_to_see_alone,
    same_as_alone,
    stacked,
)
from gradcheck_cli.frameworks.shared.run_on import Iteration
from gradcheck_cli.frameworks.shared.run_out import watched_loops
from gradcheck_cli.frameworks.shared.tracing import (
    Untraceable,
    brief,
    precision,
    with_jacobian,
    with_pullback,
)
from gradcheck_cli.reals.draws import program_of
from gradcheck_cli.reals.program import Program
from gradcheck_cli.subject.device import asked_for, measured, measuring, seen_on_the_cpu
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import AUTO, EAGER, VALUE, Array, Floats, Traces
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code

_NOT_PULLED = "the rules that it calls have no gradient of the right shapes over the reals"
_A_FEW = 16  # seeds: what draws at all gives other numbers for one of so many


@dataclass(slots=True, kw_only=True)
class EagerSubject(FittedGradient):
    """`Subject` of the protocol, run one call after the other."""

    outputs: list[tuple[int, ...]]
    output_dtypes: list[str]
    has_rule: bool
    _raised: str = ""

    # -- what a framework says ------------------------------------------------------------

    @abc.abstractmethod
    def try_rule(self) -> bool:
        """Run rule and autodiff once; `RuleError` if the rule fails. Does autodiff go through?"""

    @abc.abstractmethod
    def row(self, point: Sequence[Any], cotangent: Sequence[Any]) -> Row:
        """The numbers of one call: value, the rule's value and gradients, autodiff's gradients."""

    @abc.abstractmethod
    def own_gradients(self, point: Sequence[Any], cotangent: Sequence[Any]) -> list[Array]:
        """The gradients of one call by the rule, and nothing else."""

    @abc.abstractmethod
    def primal_row(self, point: Sequence[Any]) -> list[Array]:
        """The primal's value."""

    @abc.abstractmethod
    def forward_jaxpr(self) -> Any:
        """leaves → values, without the rules of inner functions."""

    @abc.abstractmethod
    def trusting_jaxpr(self) -> tuple[Any, Sequence[str]] | None:
        """leaves → values, with the rules of inner functions, and the names of these; None if there are none."""

    @abc.abstractmethod
    def rule_jaxpr(self, outs: Sequence[Any]) -> Any:
        """(leaves, cotangents) → (values, gradients)."""

    @abc.abstractmethod
    def written_row(
        self, names: Sequence[str], text: str
    ) -> tuple[Any, Callable[..., list[Array]]]:
        """A derivative given as text: its jaxpr, and its numbers at one probe."""

    # -- what follows -----------------------------------------------------------------------

    @property
    def modes(self) -> Sequence[str]:
        return (EAGER,)

    @property
    def differentiable(self) -> bool:
        traced = self.traces().primal is not None
        # Of a plain function, float64 autodiff would trust the very rules that are in question.
        return self.has_auto and (traced or self.has_rule)

    @property
    def avals(self) -> list[Any]:
        return [jax.ShapeDtypeStruct(leaf.shape, jnp.dtype(self.dtype)) for leaf in self.leaves]

    # -- traces -------------------------------------------------------------------------------

    def trace(self) -> Traces:
        """Both programs, after the rule was seen to run."""
        self.has_auto = self.try_rule()
        try:
            forward = self.forward_jaxpr()
        except (UserCodeError, Untraceable) as error:
            return Traces(None, None, reason=self._untraced("forward", error))
        primal = self._pulled_back(forward)
        if not self.has_rule:
            return self._of_inner_rules(primal)
        trusting, inner = self._trusting()
        outs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
        try:
            backward = self.rule_jaxpr(outs)
        except (UserCodeError, Untraceable) as error:
            return Traces(primal, None, reason=self._untraced("backward", error))
        rule = program_of(backward)
        self.elementwise = self.runs_elementwise(primal, rule)
        return Traces(primal, rule, trusting, inner=inner)

    def iteration(self) -> Iteration | None:
        wide = self.in_float64()
        if wide is None or not self.has_rule:
            return None
        try:
            with precision("float64"):
                forward = wide.forward_jaxpr()
                outs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
                return Iteration(forward, wide.rule_jaxpr(outs))
        except (UserCodeError, Untraceable):
            return None

    def in_float64(self, *, bare: bool = True) -> Self | None:
        """The subject in float64; None where the function insists on its own dtype."""
        try:
            return self.in_dtype("float64")
        except Rejected:
            return None

    @measured
    def rule_gradients_unbatched(
        self, point: Sequence[Array], cotangent: Sequence[Array]
    ) -> list[Array]:
        return self.own_gradients(point, cotangent) if self.has_rule else []

    def rule_pullback(self, point: Sequence[Array]) -> None:
        """None: a call keeps what its backward may write into, or frees."""

    @measured
    def with_new_draws(
        self, seeds: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]] | None:
        """Gradients and values for one seed after the other; None if the seed changes nothing, or it raises here."""
        try:
            with calling_user_code():
                few = self._from_seeds(
                    range(1, _A_FEW + 1), point, cotangent, [e[:1] for e in ends]
                )
                if _all_same(few):
                    return None
                drawn = self._from_seeds(range(1, seeds + 1), point, cotangent, ends)
        except UserCodeError:
            return None
        return None if _all_same(drawn) else drawn

    def _from_seeds(
        self,
        seeds: Iterable[int],
        point: Sequence[Array],
        cotangent: Sequence[Array],
        ends: Sequence[Array],
    ) -> tuple[list[Array], list[Array]]:
        drawn = [self._from_seed(n, point, cotangent, ends) for n in seeds]
        gradients, values = [[np.stack(same) for same in zip(*arrays, strict=True)] for arrays in zip(*drawn, strict=True)]  # fmt: skip
        return gradients, values

    def _from_seed(
        self, n: int, point: Sequence[Array], cotangent: Sequence[Array], ends: Sequence[Array]
    ) -> tuple[list[Array], list[Array]]:
        with another(n):
            rows = [self.primal_row(end) for end in zip(*ends, strict=True)]
            return self.rule_gradients_unbatched(point, cotangent), [
                np.stack(v) for v in zip(*rows, strict=True)
            ]

    def trace_rule(self) -> Any:
        outs = zip(self.outputs, self.output_dtypes, strict=True)
        return self.rule_jaxpr(
            [jax.ShapeDtypeStruct(shape, jnp.dtype(name)) for shape, name in outs]
        )

    def demand_rule(self) -> None:
        self.try_rule()

    def written(self, names: Sequence[str], text: str) -> tuple[Any, Batched]:
        jaxpr, one = self.written_row(names, text)
        return jaxpr, functools.partial(row_by_row, one)

    def _pulled_back(self, forward: Any) -> Program | None:
        """Value and pullback of a traced forward, where autodiff goes through it in either mode."""
        body = jax.extend.core.jaxpr_as_fun(forward)
        outs = [jax.ShapeDtypeStruct(v.shape, v.dtype) for v in forward.out_avals]
        for mode in (with_pullback, with_jacobian):
            both = mode(lambda *xs: tuple(body(*xs)), len(self.leaves))
            with contextlib.suppress(UserCodeError), calling_user_code():
                return program_of(jax.make_jaxpr(both)(*self.avals, *outs))
        return None

    def _of_inner_rules(self, primal: Program | None) -> Traces:
        """A plain function's programs; `reason` says why the rules that it calls have none."""
        try:
            trusting = self.trusting_jaxpr()
        except (UserCodeError, Untraceable) as error:
            return Traces(primal, None, reason=self._why("inner rules", error))
        program = None if trusting is None else self._pulled_back(trusting[0])
        pulled = trusting is None or program is not None
        return Traces(primal, program, reason=None if pulled else _NOT_PULLED)

    def _trusting(self) -> tuple[Program | None, tuple[str, ...]]:
        """Autodiff that takes inner rules at their word, and their names, each once."""
        try:
            trusting = self.trusting_jaxpr()
        except (UserCodeError, Untraceable):
            trusting = None
        if trusting is None:
            return None, ()
        forward, names = trusting
        return self._pulled_back(forward), tuple(dict.fromkeys(names))

    def _untraced(self, which: str, error: UserCodeError | Untraceable) -> str:
        """Why there is no program; `Rejected` for numbers, which eager code takes where it means vectors."""
        reason = self._why(which, error)
        if not isinstance(error, Untraceable) and all(not leaf.shape for leaf in self.leaves):
            raise Rejected(reason)
        return reason

    def _why(self, which: str, error: UserCodeError | Untraceable) -> str:
        message = str(error) if isinstance(error, Untraceable) else brief(error.error)
        message = message.partition(" The error occurred")[0]
        return f"its {which} could not be traced over the reals: {message[:240]}"

    # -- floats -------------------------------------------------------------------------------

    def placed(self) -> AbstractContextManager[None]:
        return measuring(on=asked_for() == "gpu" and not self.stays_on_cpu)

    @measured
    def run(
        self,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        modes: Sequence[str] | None = None,
    ) -> Mapping[str, Floats]:
        """All probes, as one array where each element is a point, else one after the other."""
        count = len(points[0])
        batch = self.at_once(points, cotangents) if count > SEEN_ALONE else None
        if batch is not None:
            return {EAGER: batch}
        rows = [
            self._tried([p[i] for p in points], [c[i] for c in cotangents]) for i in range(count)
        ]
        return {EAGER: stacked(rows, self.nothing, self._raised)}

    def at_once(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Floats | None:
        """Floats of many rows together, where that gives what the rows give alone; else None."""
        return self._whole(points, cotangents) if self.elementwise else None

    @property
    def nothing(self) -> Row:
        """NaN in place of each number of a row: what there is where the function raises."""
        outputs = [np.full(shape, np.nan) for shape in self.outputs]
        gradients = [np.full(leaf.shape, np.nan) for leaf in self.leaves]
        has_auto = self.has_auto or not self.has_rule
        return Row(outputs, outputs, gradients if self.has_rule else None, gradients if has_auto else None)  # fmt: skip

    def run_scalars(self, xs: Array, cotangents: Sequence[float]) -> list[Array]:
        """Values and gradients at very many numbers, in their own dtype."""
        rows = [np.full(len(xs), float(c)) for c in cotangents]
        floats = self.run([xs.astype(np.float64)], rows)[EAGER]
        return [a.astype(xs.dtype) for a in (*floats.rule_value, *(floats.custom or floats.auto or []))]  # fmt: skip

    @measured
    def primal_values(self, points: Sequence[Array]) -> list[Array]:
        """The primal's values; NaN where the function raises."""
        nothing = [np.full(shape, np.nan) for shape in self.outputs]
        rows = []
        for i in range(len(points[0])):
            try:
                with calling_user_code():
                    rows.append(seen_on_the_cpu(self.primal_row, [p[i] for p in points]))
            except UserCodeError:
                rows.append(nothing)
        return [np.stack(column) for column in zip(*rows, strict=True)]

    @measured
    def run_row(
        self, point: Sequence[Array], cotangent: Sequence[Array], mode: str, who: str
    ) -> list[Array]:
        row = self._tried(point, cotangent)
        if row is None:
            raise Rejected("it raises there")
        if who == VALUE:
            return row.rule_value
        return (row.auto if who == AUTO else row.custom) or []

    def run_out(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Array:
        """Rows in which a loop that ends by `break` came to its last trip."""
        found = np.zeros(len(points[0]), bool)
        for i in range(len(found)):
            with watched_loops() as seen:
                self._tried([p[i] for p in points], [c[i] for c in cotangents])
            if not seen.any:
                break  # the other rows would show none, either
            found[i] = seen.ran_out
        return found

    def _tried(self, point: Sequence[Any], cotangent: Sequence[Any]) -> Row | None:
        try:
            with calling_user_code():
                return seen_on_the_cpu(self.row, point, cotangent)
        except UserCodeError as raised:
            self._raised = brief(raised.error)
            return None

    def _whole(self, points: Sequence[Array], cotangents: Sequence[Array]) -> Floats | None:
        """Floats of the batch as one array; None if its rows turn out to know of each other."""
        row = self._tried(points, cotangents)
        count = len(points[0])
        if row is None or any(a.shape != (count,) for part in row for a in part or ()):
            return None
        whole = Floats(row.value, row.rule_value, row.custom, row.auto)
        return whole if self.same_alone(whole, points, cotangents) else None

    def same_alone(
        self,
        whole: Floats,
        points: Sequence[Array],
        cotangents: Sequence[Array],
        same: Callable[[Row, Row, int], bool] = same_as_alone,
    ) -> bool:
        """Do a few rows give the batch's numbers when they are run by themselves?"""
        together = Row(whole.value, whole.rule_value, whole.custom, whole.auto)
        refused = np.zeros(len(points[0]), bool) if whole.refused is None else whole.refused
        for i in rows_to_see_alone([a for part in together for a in part or ()]):
            alone = self._tried([p[i] for p in points], [c[i] for c in cotangents])
            if alone is None and refused[i]:
                continue
            if alone is None or not same(together, alone, i):
                return False
        return True


def _all_same(drawn: tuple[list[Array], list[Array]]) -> bool:
    """Does every seed give the numbers of the first?"""
    gradients, values = drawn
    return all((a == a[:1]).all() for a in (*gradients, *values))
