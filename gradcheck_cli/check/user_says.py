"""What the user says of one gradient: its inputs, and what its rule is meant to be."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from gradcheck_cli.clues.withheld import withheld
from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.contract.worker import Task
from gradcheck_cli.inputs.domain import Domain
from gradcheck_cli.inputs.names import is_learned, weighs_classes
from gradcheck_cli.inputs.signature import Hints
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.project.input_specs import condition
from gradcheck_cli.project.input_specs import parse as parse_spec
from gradcheck_cli.project.intent_specs import DEVIATES, HELD, ON_PURPOSE, WITHHELD, Declared
from gradcheck_cli.project.intent_specs import parse as parse_intents
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import CustomGradient


@dataclasses.dataclass(frozen=True, slots=True)
class Statement:
    """What the user says of a gradient in comments and settings; `findings` are about the saying."""

    hints: Hints
    intents: list[Declared]
    findings: list[Finding]


def user_says(hints: Hints, gradient: CustomGradient, task: Task, site: Site) -> Statement:
    """The framework's hints with the user's specifications and domains, and the declared intents.

    What a docstring takes as a constant, or says of its derivative, is declared in prose.
    """
    places = places_of(gradient, site)
    texts = [task.expects[k] for k in places if k in task.expects]
    intents = [declared for text in texts for declared in parse_intents(text)]
    known = {declared.argument for declared in intents if declared.name == "zero"}
    prose = (name for name in hints.constants if name not in known)
    intents += [Declared("zero", name, in_prose=True) for name in prose]
    if hints.straight_through and not any(d.name == "straight-through" for d in intents):
        intents.append(Declared("straight-through", None, in_prose=True))
    nothing = list(withheld(gradient.rule_code(), gradient.parameters()))
    told = ((DEVIATES, hints.deviates), (ON_PURPOSE, _on_purpose(hints, nothing)))
    intents += [Declared(name, word, in_prose=True) for name, word in told if word]
    intents += [Declared(HELD, name, in_prose=True) for name in sorted(hints.held)]
    names = [parameter.name for parameter in gradient.parameters()]
    unlearned = _unlearned(hints, nothing, names)
    intents += [Declared(WITHHELD, name, in_prose=True) for name in unlearned]
    hints = dataclasses.replace(hints, domains={**hints.domains, **_domains(intents)})
    key = next((k for k in places if k in task.inputs), None)
    if key is None:
        return Statement(hints, intents, [])
    specs = parse_spec(task.inputs[key])
    hints = dataclasses.replace(hints, specs=specs, spec_source=places[key])
    return Statement(hints, intents, _unknown(specs, gradient, site))


def _on_purpose(hints: Hints, nothing: Sequence[str]) -> str:
    """The words by which a text deviates, unless they are of arguments alone that get nothing: the others are as they are."""
    return "" if hints.held and hints.held <= set(nothing) else hints.on_purpose


def _unlearned(hints: Hints, nothing: Sequence[str], names: Sequence[str]) -> list[str]:
    """Of the arguments that get nothing by the rule's own text those that neither a name nor a text calls learned."""
    calls = [name for name in nothing if not is_learned(name) or weighs_classes(name, names)]
    return [name for name in calls if name not in hints.learned]


def _domains(intents: Sequence[Declared]) -> dict[str, Domain]:
    """The domain of each argument for which one is declared."""
    conditions = (condition(d.argument or "") for d in intents if d.name == "domain")
    return {name: Domain(bounds, "what is declared of it") for name, bounds in conditions}


def _unknown(specs: Mapping[str, object], gradient: CustomGradient, site: Site) -> list[Finding]:
    """A warning where the inputs speak of an argument that the gradient does not take."""
    arguments = [p.name for p in gradient.parameters()]
    unknown = [name for name in specs if name not in arguments]
    if not unknown:
        return []
    rule = find(RuleName.UNKNOWN_ARGUMENT)
    message = f"the inputs speak of `{unknown[0]}`; it takes {', '.join(arguments)}"
    finding = rule.finding(site.path, site.line, message, about=gradient.place.qualname)
    return [replace(finding, severity=Severity.WARNING, gradient=site.qualname)]


def places_of(gradient: CustomGradient, site: Site) -> dict[str, str]:
    """By what something may be said of this gradient: a line of its definition, or its name."""
    lines = range(gradient.place.line, max(site.line, site.header_end) + 1)
    return {str(n): f"the comment for line {n}" for n in lines} | dict.fromkeys(
        (gradient.place.qualname, gradient.name), "the settings"
    )
