"""`expect(scaled=-1.0)`, `expect(scaled=-alpha)`: the true gradient times that, as in gradient reversal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from flint import arb

from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.diagnose.constant_factor import is_a_share, setting_of, size_of
from gradcheck_cli.judge.intents.intent import at, common_cells, formula, shown
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, component_name
from gradcheck_cli.measure.formula_gap import ratio
from gradcheck_cli.measure.handed_on import origins
from gradcheck_cli.measure.measurements import Measurements


@dataclass(frozen=True, slots=True)
class Scaled:
    name: str = "scaled"
    answers: frozenset[RuleName] = frozenset({RuleName.GRADIENT_MISMATCH})

    def broken(self, m: Measurements, argument: str | None) -> str | None:
        gradients, truth = formula(m), m.reference.balls(GRADIENTS)
        for row, k in common_cells(m):
            factor = _factor(m, row, k, argument or "1")
            if factor is None:
                return f"`{argument}` is neither a number nor an argument that fits"
            if not gradients[row, k].overlaps(factor * truth[row, k]):
                ours, true = shown(gradients[row, k]), shown(truth[row, k])
                return f"at {at(m, row)} the gradient is {ours}, the truth {true}"
        return None

    def candidates(self, failure: Failure, m: Measurements) -> Iterator[str | None]:
        """An argument by which all gradients are scaled, or the one constant that they have in common.

        But none that the call has by chance: a size, or a setting that it is one over.
        """
        for name in m.settings:
            yield from (name, f"-{name}")
        pairs = list(common_cells(m))
        truth, ours = m.reference.balls(GRADIENTS), formula(m)
        factor = ratio([truth[p] for p in pairs], [ours[p] for p in pairs])
        # What is only handed on has no mean whose size this could be, nor another number that it lacks.
        of_call = (
            factor is not None
            and origins(m) is None
            and (
                size_of(abs(factor), m.sizes)
                or is_a_share(factor, m.sizes)
                or setting_of(factor, m.settings)
            )
        )
        if factor is not None and not of_call and not factor.overlaps(arb(1)):
            yield m.fmt.show(float(factor.mid()))
        for leaf in m.subject.leaves:  # gradient reversal is mostly by one of its arguments
            if len(m.subject.leaves) > 1:
                yield from (leaf.path, f"-{leaf.path}")

    def covers(self, failure: Failure, m: Measurements, argument: str | None) -> bool:
        return True


def _factor(m: Measurements, row: int, k: int, text: str) -> arb | None:
    """A constant, as exact as the dtype can hold it, or the number that the argument has there."""
    try:
        number = float(text)
    except ValueError:
        return _of_argument(m, row, k, text)
    return arb(number, abs(number) * m.fmt.eps)


def _of_argument(m: Measurements, row: int, k: int, text: str) -> arb | None:
    name = text.removeprefix("-")
    leaves = m.subject.leaves
    here = next((i for i, leaf in enumerate(leaves) if leaf.path == name), None)
    if here is None:
        setting = m.setting(name)
        sign = -1 if text.startswith("-") else 1
        return None if setting is None else arb(sign * setting, abs(setting) * m.fmt.eps)
    number, index = component_name(m, GRADIENTS, k)
    value = m.points[here][row]
    if leaves[here].size == 1:
        value = value.reshape(())
    elif leaves[here].shape == leaves[number].shape:
        value = value[index]
    else:
        return None
    return arb(-float(value) if text.startswith("-") else float(value))


SCALED = Scaled()
