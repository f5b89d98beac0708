"""Flags of settings objects that a factory takes: settings of the call, like its own flags."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from gradcheck_cli.discover.makers import Call
from gradcheck_cli.discover.settings_objects import holds_settings, otherwise, with_other_words


@dataclass(frozen=True)
class Rules:
    squared: bool = False
    verbose: bool = False
    detached: bool = False
    share: float = 0.5


class Options(NamedTuple):
    centred: bool = True


RULES, OPTIONS = Rules(), Options()


def make(rules: Rules = RULES, options: Options = OPTIONS, *, mean: bool = True) -> Any:
    return rules.squared, rules.detached, options.centred, mean


def make_of_two(first: Rules = RULES, second: Rules = RULES) -> Any:
    return first.squared, second.squared


def test_flags_that_the_text_reads_are_settings() -> None:
    """Not those that nothing reads, nor those by which a derivative is meant to be another."""
    settings = Call(make, ()).settings
    assert {name: (s.value, s.owner) for name, s in settings.items()} == {
        "squared": (False, "rules"),
        "centred": (True, "options"),
        "mean": (True, ""),
    }


def test_a_call_is_made_again_with_a_flag_the_other_way() -> None:
    call = Call(make, ())
    assert call.again({"squared": True, "mean": False}) == (True, False, True, False)
    assert call.again({"centred": False}) == (False, False, False, True)
    assert Call(make, (Rules(detached=True),)).again({"squared": True})[:2] == (True, True)


@dataclass(frozen=True)
class Layers:
    groups: int = 1
    width: int = 64
    first: bool = False
    centred: bool = False
    stop_gradient: bool = False
    eps: float = 1e-6

    def __post_init__(self) -> None:
        if self.groups > 1 and self.first:
            raise ValueError(self.groups)


class Masking(NamedTuple):
    is_causal: bool = False
    held: bool = False


def test_a_settings_object_has_others_beside_it() -> None:
    """Its flags the other way, at once and each, and one more of a small count; not what makes another derivative."""
    assert [other.text for other in otherwise(Layers())] == [
        "Layers(first=True, centred=True)",
        "Layers(first=True)",
        "Layers(centred=True)",
        "Layers(groups=2)",
    ]
    assert [other.text for other in otherwise(Layers(first=True))][-1] == "Layers(centred=True)"
    assert [other.value for other in otherwise(OPTIONS)] == [Options(centred=False)]
    assert holds_settings(RULES)
    assert [o.text for o in otherwise(Masking())] == ["Masking(is_causal=True)"]
    assert not any(map(holds_settings, (None, 2, "mean", (1, 2), Layers)))


def test_a_flag_of_two_objects_is_neithers() -> None:
    assert Call(make_of_two, ()).settings == {}


Ends = Literal["open", "closed"]


@dataclass(frozen=True)
class Edges:
    edge: str = "zero"  # "zero", "symmetric" or "reflect"
    norm: str = "sum"
    ends: Ends = "open"
    label: str = "of no choice"
    backward: str = "exact"  # "exact" or "identity", another derivative


def padded(settings: Edges = Edges()) -> Any:
    return settings.edge, settings.norm == "mean", settings.ends


def test_words_of_a_field_are_those_beside_it_and_those_it_is_compared_with() -> None:
    settings = Call(padded, ()).settings
    assert {name: s.annotation for name, s in settings.items()} == {
        "edge": "Literal['zero', 'symmetric', 'reflect']",
        "norm": "Literal['sum', 'mean']",
        "ends": "Literal['open', 'closed']",
    }
    assert Call(padded, ()).again({"edge": "reflect"}) == ("reflect", False, "open")
    assert [o.text for o in otherwise(Edges())] == [
        "Edges(edge='symmetric')",
        "Edges(edge='reflect')",
        "Edges(norm='mean')",
        "Edges(ends='closed')",
    ]
    assert list(with_other_words(Edges())) == list(otherwise(Edges()))
