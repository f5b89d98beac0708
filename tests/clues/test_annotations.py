"""Annotations as clues."""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Literal

import pytest

from gradcheck_cli.clues.annotations import annotated, clues
from gradcheck_cli.inputs.clue import Clue, Kind
from gradcheck_cli.inputs.parameters import declared
from gradcheck_cli.inputs.signature import Parameter


def nothing(x: Any) -> None: ...


def clue_of(annotation: str, name: str = "x") -> Clue:
    parameter = Parameter(name, 0, True, False, annotation=annotation)
    return clues(nothing, [parameter]).get(name, [Clue("")])[0]


@pytest.mark.parametrize(
    ("annotation", "spec"),
    [
        ('Float[Array, "b n"]', "f32[b n]"),
        ("jaxtyping.Int32[jax.Array, 'b']", "i32[b]"),
        ("Bool[Tensor, 'n n']", "bool[n n]"),
        ("Float[Array, '*batch 3 #d']", "f32[batch 3 d]"),
        ("Float[Array, '... d']", "f32[lead d]"),
        ("Float[Array, '']", "f32[]"),
        ("Optional[Float[Array, 'n']]", "f32[n]"),
        ("Float[Array, 'n+1']", "f32[n+1]"),
        ("Float[Array, '{self.n}']", ""),
        ("f[B T H D]", "f32[B T H D]"),
        ("'i[B T]'", "i32[B T]"),
        ("float32[n, d]", "f32[n d]"),
        ("[b, ..., d]", "f32[b lead d]"),
        ("bool[b]", "bool[b]"),
        ("ndarray[Any, Any]", ""),
        ("list[int]", ""),
        ("int", "3"),
        ("bool", "False"),
        ("jax.Array", ""),
        ("dict[str, 'x']", ""),
    ],
)
def test_annotations_that_say_a_shape(annotation: str, spec: str) -> None:
    parameter = Parameter("x", 0, True, False, annotation=annotation)
    assert annotated([parameter]).get("x", "") == spec
    assert clue_of(annotation).spec == spec


def test_a_sequence_of_floats_is_a_row_of_plain_numbers() -> None:
    for annotation in ("Sequence[float]", "typing.Iterable[float]"):
        assert clue_of(annotation, "frequencies").values == ((0.5, 1.25, 2.0),)
        assert clue_of(annotation).kind is Kind.NUMBER


@pytest.mark.parametrize(
    ("annotation", "kind"),
    [
        ("jax.Array", Kind.ARRAY),
        ("np.ndarray[Any, Any]", Kind.ARRAY),
        ("float | jnp.ndarray", Kind.ARRAY),
        ("torch.LongTensor", Kind.INTEGERS),
        ("float", Kind.NUMBER),
        ("int", Kind.WHOLE),
        ("str", Kind.WORD),
        ("Callable[[Array], Array]", Kind.FUNCTION),
        ("jnp.dtype", Kind.DTYPE),
        ("torch.Size", Kind.SHAPE),
        ("tuple[int, ...]", Kind.SHAPE),
        ("Dict[str, Array]", Kind.TREE),
        ("int | str", Kind.NOTHING),
        ("Model", Kind.NOTHING),
    ],
)
def test_annotations_that_say_what_sort_of_argument_it_is(annotation: str, kind: Kind) -> None:
    assert clue_of(annotation).kind is kind


def test_a_plain_float_is_a_single_number_and_no_guess() -> None:
    assert clue_of("float").spec == "f32[]"
    assert annotated([Parameter("x", 0, True, False, annotation="float")]) == {}


def test_what_may_be_left_out_may_be_none_too() -> None:
    for annotation in ("Optional[int]", "int | None", "typing.Union[int, None]", "None | int"):
        assert clue_of(annotation).values == (3, 2, None)
    assert clue_of('Float[Array, "n"] | None').values == (None,)


def test_an_axis_is_one_by_its_name() -> None:
    clue = clue_of("int", "axis")
    assert (clue.kind, clue.spec, clue.values) == (Kind.AXIS, "-1", (-1, 0))


def test_axes_left_open_have_named_ends() -> None:
    clue = clue_of("Float[Array, 'b ... 3']")
    assert (clue.first, clue.last, clue.least_rank) == (("b",), ("3",), 2)


class Mode(enum.Enum):
    SOFT = 1
    HARD = 2


class Estimator(enum.Enum):
    EXACT = 1
    SAMPLED = 2
    STRAIGHT_THROUGH = 3


def test_a_default_of_an_enumeration_has_others_beside_it() -> None:
    parameter = Parameter("kind", 0, True, False, default=Mode.HARD)
    (clue,) = clues(nothing, [parameter])["kind"]
    assert clue.kind is Kind.WORD
    assert clue.values == (Mode.HARD, Mode.SOFT)
    parameter = Parameter("kind", 0, True, False, default=Estimator.SAMPLED)
    (clue,) = clues(nothing, [parameter])["kind"]
    assert clue.values == (Estimator.SAMPLED, Estimator.EXACT)  # the third is another derivative


def test_words_of_a_literal_and_members_of_an_enumeration_are_values() -> None:
    def function(
        how: Literal["mean", "sum"], mode: Mode, f: Callable[[int], int], c: float | None
    ) -> None: ...

    # As without `from __future__ import annotations`: objects, no text.
    function.__annotations__ = {
        "how": Literal["mean", "sum"], "mode": Mode, "f": Callable[[int], int], "c": float | None
    }  # fmt: skip
    found = clues(function, declared(function, 0, lambda i, p: True))
    assert (found["how"][0].values, found["how"][0].spec) == (("mean", "sum"), "'mean'")
    assert found["mode"][0].values == (Mode.SOFT, Mode.HARD)
    assert found["f"][0].kind is Kind.FUNCTION
    assert (found["c"][0].spec, found["c"][0].values) == ("f32[]", (None,))


def test_members_that_mean_another_derivative_are_none_of_an_annotation() -> None:
    def function(mode: Estimator) -> None: ...

    function.__annotations__ = {"mode": Estimator}
    (clue,) = clues(function, declared(function, 0, lambda i, p: True))["mode"]
    assert clue.values == (Estimator.EXACT, Estimator.SAMPLED)


class Phase(enum.Enum):
    LIQUID = 1
    FROZEN = 2


def test_a_phase_is_another_function_and_no_other_derivative() -> None:
    parameter = Parameter("phase", 0, True, False, default=Phase.LIQUID)
    assert clues(nothing, [parameter])["phase"][0].values == (Phase.LIQUID, Phase.FROZEN)


def test_a_tuple_of_so_many_whole_numbers_has_values() -> None:
    clue = clue_of("tuple[int, int]", "kernel_size")
    assert (clue.kind, clue.values) == (Kind.SHAPE, ((3, 2), (2, 3)))
