"""A gradient that a maker makes has the maker's settings for arguments, and is made again for others."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from gradcheck_cli.discover.makers import Call, Maker
from gradcheck_cli.frameworks.shared.made_anew import Anew, recorded_again, settings_of
from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import OMITTED, Fixed, Leaf, Parameter, Signature
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.results import Found, Place

RECORDED: list[Found] = []


def make(alpha: float = 0.5, beta: float = 0.5, unused: int = 3) -> None:
    if alpha > 1:
        raise ValueError("too much")
    rate = beta

    def rule(x: Any) -> Any:
        return alpha * x + rate

    RECORDED.append(Found(rule, "rule", __file__, 1))


@contextmanager
def recording() -> Iterator[list[Found]]:
    RECORDED.clear()
    yield RECORDED


@dataclass(frozen=True)
class Made:
    rule: Callable[..., Any]
    place: Place = field(default_factory=lambda: Place(__file__, 1, "make.<locals>.rule"))

    def parameters(self) -> list[Parameter]:
        return declared(self.rule, 0, lambda index, parameter: True)

    def rule_code(self) -> list[FunctionType]:
        inner = inspect.unwrap(self.rule)
        return [inner] if isinstance(inner, FunctionType) else []


def gradient() -> tuple[Made, Anew]:
    with recording() as found:
        make()
    made = Made(found[0].thing)  # type: ignore[arg-type]
    maker = Maker(Call(make, ()))
    again = recorded_again(maker, made, recording, lambda found: Made(found.thing))  # type: ignore[arg-type]
    anew = Anew(settings_of(maker, made.rule, ["x"]), again, ("rule",))
    return anew.dressed(made, made), anew


def at(**settings: Any) -> Signature:
    given = tuple((n, Fixed(v, repr(v), "test")) for n, v in settings.items())
    return Signature((("x", Leaf("x", (), "test")), *given))


def test_settings_are_those_that_the_text_rests_on() -> None:
    made, anew = gradient()
    assert set(anew.settings) == {"alpha", "beta"}
    assert [(p.name, p.keyword_only, p.default) for p in made.parameters()] == [
        ("x", False, OMITTED), ("alpha", True, 0.5), ("beta", True, 0.5),
    ]  # fmt: skip


def test_it_is_made_again_with_the_settings_of_a_signature() -> None:
    made, anew = gradient()
    assert made.rule(2.0, alpha=0.5) == 1.5
    there = anew.at(made, at(alpha=0.25))
    assert there.rule(2.0, alpha=0.25) == 1.0
    assert anew.at(made, at(alpha=0.5)) is made


def test_settings_that_its_maker_does_not_take_are_refused() -> None:
    made, anew = gradient()
    with pytest.raises(Rejected, match=r"it is not made with alpha=1\.5"):
        anew.at(made, at(alpha=1.5))


def test_what_no_maker_made_has_no_settings() -> None:
    made, _ = gradient()
    assert settings_of(None, made.rule, []) == {}


def test_an_array_is_none_of_its_settings_as_they_are() -> None:
    made, anew = gradient()
    there = anew.at(made, at(beta=np.array([1.0, 2.0])))
    assert there.rule(2.0, beta=None).tolist() == [2.0, 3.0]


def test_what_is_learned_is_made_anew_at_each_call() -> None:
    with recording() as found:
        make()
    made, maker = Made(found[0].thing), Maker(Call(make, ()))  # type: ignore[arg-type]
    again = recorded_again(maker, made, recording, lambda found: Made(found.thing))  # type: ignore[arg-type]
    settings = settings_of(maker, made.rule, ["x"])
    rule = Anew(settings, again, ("rule",), learned=frozenset({"alpha"})).dressed(made, made).rule
    assert rule(2.0, alpha=0.25) == 1.5  # a plain number is of the call as it was made
    assert rule(2.0, alpha=np.float32(0.25)) == 1.0
    assert inspect.signature(rule).parameters["alpha"].annotation == "float"


def test_what_counts_the_places_of_a_table_becomes_no_smaller() -> None:
    made, anew = gradient()
    anew.settings = {n: replace(s, value=3, counts_places=True) for n, s in anew.settings.items()}
    with pytest.raises(Rejected, match="names places"):
        anew.at(made, at(alpha=2))
    with pytest.raises(Rejected, match="is not made"):  # too much, and no smaller
        anew.at(made, at(alpha=4))
