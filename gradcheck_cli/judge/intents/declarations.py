"""What is declared of one gradient: which failures that answers, and what it promises in vain."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from gradcheck_cli.contract.report import Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.judge.intents import INTENTS
from gradcheck_cli.judge.intents.intent import Doubt, argument_of, common_cells
from gradcheck_cli.measure.components import GRADIENTS
from gradcheck_cli.measure.failure import Failure, Ground, Kind
from gradcheck_cli.measure.measurements import Measurements
from gradcheck_cli.project.intent_specs import Declared

_BY_NAME = {intent.name: intent for intent in INTENTS}


@dataclass(slots=True)
class Declarations:
    """The intents declared of one gradient, over all its signatures: which were used, which are broken."""

    intents: list[Declared]
    used: set[Declared] = field(default_factory=set)
    broken: set[Declared] = field(default_factory=set)

    def answer(self, failures: Sequence[Failure], m: Measurements) -> list[Failure]:
        """The failures that no intent explains, and one for each promise that is not kept."""
        left = list(failures)
        for declared in self.intents:
            intent = _BY_NAME.get(declared.name)
            if intent is None or m.rule is None:
                continue
            arguments = _parts(declared.argument, m)
            problem = _first(intent.broken(m, argument) for argument in arguments)
            if isinstance(problem, str) and declared.in_prose:
                continue
            if isinstance(problem, str):
                self.broken.add(declared)
                left.append(_broken_promise(declared, problem))
                continue
            rest = [
                f for f in left
                if f.rule not in intent.answers
                or not any(intent.covers(f, m, argument) for argument in arguments)
            ]  # fmt: skip
            if len(rest) < len(left):
                self.used.add(declared)
                if isinstance(problem, Doubt):
                    rest.append(_doubt(declared, problem))
            left = rest
        return left

    @property
    def unused(self) -> list[Declared]:
        """Intents that hold, as they do for any right rule, and that explain nothing."""
        checked = (d for d in self.intents if d.name in _BY_NAME and not d.in_prose)
        return [d for d in checked if d not in self.used and d not in self.broken]


def comment_for(failure: Failure, m: Measurements) -> str | None:
    """The comment that declares the failure, if the rule keeps the law of such a deviation."""
    if failure.severity is not Severity.ERROR or m.rule is None or not _compared(failure, m):
        return None
    for intent in INTENTS:
        for argument in intent.candidates(failure, m) if failure.rule in intent.answers else ():
            if intent.broken(m, argument) is None:
                return f"expect({Declared(intent.name, argument).text})"
    return None


def _compared(failure: Failure, m: Measurements) -> bool:
    """Has the argument a truth anywhere? Without one each law seems to hold."""
    if failure.what != GRADIENTS:
        return True
    name = argument_of(m, failure.component)
    return any(argument_of(m, component) == name for _, component in common_cells(m))


def _parts(argument: str | None, m: Measurements) -> list[str | None]:
    """What is declared of a complex argument is declared of both of its parts."""
    leaves = m.subject.signature.whole_leaves
    whole = next((leaf for leaf in leaves if leaf.path == argument), None)
    return [argument] if whole is None else [part.path for part in whole.parts]


def _first(problems: Iterable[str | Doubt | None]) -> str | Doubt | None:
    """The first promise that is not kept; else the first doubt."""
    told = [problem for problem in problems if problem is not None]
    return min(told, key=lambda problem: isinstance(problem, Doubt), default=None)


def _doubt(declared: Declared, doubt: Doubt) -> Failure:
    return Failure(
        RuleName.INCONCLUSIVE_GRADIENT, Severity.WARNING, 0, GRADIENTS, 0, Ground(Kind.DOUBT, declared.name),
        f"whether `expect({declared.text})` holds could not be told: {doubt.text}", everywhere=True,
    )  # fmt: skip


def _broken_promise(declared: Declared, problem: str) -> Failure:
    return Failure(
        RuleName.BROKEN_INTENT, Severity.ERROR, 0, GRADIENTS, 0, Ground(Kind.INTENT, declared.name),
        f"`expect({declared.text})` does not hold: {problem}", everywhere=True,
    )  # fmt: skip
