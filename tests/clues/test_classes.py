"""Arguments that are objects of fields: their classes, and objects of these."""

from __future__ import annotations

import dataclasses
from fractions import Fraction
from types import FunctionType
from typing import Any, NamedTuple

from gradcheck_cli.clues.classes import (
    classes,
    classes_of_arguments,
    fields_of,
    from_fields,
    has_fields,
    instances,
    is_configuration,
    like,
    with_fields,
)
from gradcheck_cli.inputs.signature import Fixed, Leaf, filled


class Pair(NamedTuple):
    weight: float
    n: int


@dataclasses.dataclass(frozen=True)
class Layer:
    weight: float
    bias: float

    def __post_init__(self) -> None:
        raise AssertionError("an object is given its fields, not initialized")


def sheared(first, second, x):
    """Shears `x`: ``first`` and ``second`` are ``Layer`` with leaves ``[M]``."""
    return x


def test_a_sentence_names_the_class_of_several_arguments() -> None:
    found = classes_of_arguments(sheared, [], ["first", "second", "x"], {})
    assert found == {"first": Layer, "second": Layer}


def test_objects_are_from_fields_their_fields() -> None:
    def option(name: str, annotation: str) -> object:
        return Fixed(2, "2", "") if annotation == "int" else Leaf(name, (), "")

    pair = from_fields(Pair, option)
    layer = from_fields(Layer, option)
    assert pair is not None
    assert layer is not None
    assert filled(pair, iter([0.5])) == Pair(0.5, 2)
    built = filled(layer, iter([1.0, 2.0]))
    assert (type(built), built.weight, built.bias) == (Layer, 1.0, 2.0)
    again = like(built, [(name, Leaf(name, (), "")) for name, _ in fields_of(built)])
    assert filled(again, iter([3.0, 4.0])).bias == 4.0


def test_classes_are_those_of_annotations_that_exist() -> None:
    def annotated(a: Pair, b: Layer, c: float) -> None: ...

    def misspelled(a: NoSuchName) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    assert classes(annotated) == {"a": Pair, "b": Layer}
    assert classes(misspelled) == {}


class SwapSchedule(NamedTuple):
    accrual: object
    periods: object


def test_a_named_tuple_is_known_by_its_unpacking() -> None:
    def rate(discount: object, swap_schedule: Any) -> object:
        accrual, n = swap_schedule
        return accrual, n, discount

    def other(discount: object, plan: Any) -> object:
        accrual, periods = plan
        return accrual, periods, discount

    def neither(discount: object, ends: Any) -> object:
        left, right = ends
        return left, right, discount

    assert classes_of_arguments(rate, [], ["discount", "swap_schedule"], {}) == {
        "swap_schedule": SwapSchedule
    }
    assert classes_of_arguments(other, [], ["discount", "plan"], {}) == {"plan": SwapSchedule}
    assert classes_of_arguments(neither, [], ["discount", "ends"], {}) == {}


def test_a_docstring_names_the_class_of_an_argument() -> None:
    def documented(pairs: object, layer: object, other: object) -> None:
        """Sum over pairs.

        pairs : Pair
            what is weighed
        layer (`Layer`): the last one
        other: Missing
        """

    names = ["pairs", "layer", "other"]
    assert classes_of_arguments(documented, [], names, {}) == {"pairs": Pair, "layer": Layer}


DEFAULT = Pair(0.25, 3)


def test_an_object_that_the_module_holds_is_an_instance() -> None:
    def takes(a: Pair, b: Layer) -> None: ...

    assert instances(takes, classes(takes)) == {"a": DEFAULT}


def test_an_object_has_fields_and_a_class_has_none() -> None:
    assert has_fields(DEFAULT)
    assert not any(map(has_fields, (Pair, Layer, 3.0, (1, 2), {"weight": 1})))


def test_a_field_that_an_object_lacks_is_left_out() -> None:
    bare = object.__new__(Layer)
    object.__setattr__(bare, "weight", 2.0)
    assert fields_of(bare) == [("weight", 2.0)]


class Potential(NamedTuple):
    cutoff: float

    def switch(self, r: float) -> float:
        return r - self.cutoff


def energy(field, r):
    return field.switch(r) * field.cutoff


@dataclasses.dataclass(frozen=True)
class Rounding:
    bits: int = 4
    zeta: float = 1.1

    @property
    def limits(self) -> int:
        return 2**self.bits


def rounded(weight: Any, config: Any) -> Any:
    return weight * config.zeta / config.limits


def test_what_a_class_computes_when_it_is_read_tells_it_too() -> None:
    assert classes_of_arguments(rounded, [], ["weight", "config"], {}) == {"config": Rounding}


def test_a_configuration_has_plain_fields_with_defaults() -> None:
    assert is_configuration(Rounding)
    assert not is_configuration(Potential)


def test_methods_that_are_called_tell_a_class_as_fields_do() -> None:
    assert classes_of_arguments(energy, [], ["field", "r"], {}) == {"field": Potential}


class Spring:
    """A plain class: its constructor alone makes its objects."""

    def __init__(self, stiffness: float, rest: float = 1.0) -> None:
        self.stiffness = stiffness
        self.rest: float = rest


def test_a_plain_class_of_the_project_is_one_that_its_constructor_makes() -> None:
    def annotated(x: float, spring: Spring, reals: Fraction) -> None: ...

    assert classes(annotated) == {"spring": Spring}  # no class of another project
    assert is_configuration(Spring)
    assert from_fields(Spring, lambda name, text: None) is None


def test_a_plain_class_is_known_by_what_its_constructor_sets() -> None:
    def read(x: Any, spring: Any) -> Any:
        return spring.stiffness * (x - spring.rest)

    assert classes_of_arguments(read, [], ["x", "spring"], {}) == {"spring": Spring}


class Shaped:
    """A plain class that sets what an array has, too."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


class Works(NamedTuple):
    ponds: int = 3
    dtype: str = "float32"


class Parts(NamedTuple):
    real: float
    imag: float


def test_what_an_array_has_makes_no_argument_an_object_of_a_plain_class() -> None:
    def read(x: Any) -> Any:
        return x

    near = {
        "Shaped": Shaped,
        "Spring": Spring,
        "Works": Works,
        "Parts": Parts,
        "__name__": __name__,
    }
    function = FunctionType(read.__code__, near)
    assert with_fields(function, frozenset({"dtype"})) is None  # of `Works`, beside other fields
    assert with_fields(function, frozenset({"real", "imag"})) is Parts
    assert with_fields(function, frozenset({"shape"})) is None
    assert with_fields(function, frozenset({"rest", "stiffness"})) is Spring
