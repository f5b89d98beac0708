"""What a factory's body says of its options."""

from __future__ import annotations

import numpy as np
import pytest

from gradcheck_cli.clues.factory_options import clues
from gradcheck_cli.inputs.clue import Kind
from gradcheck_cli.inputs.signature import OMITTED, Parameter
from tests.clues.test_documentation import loaded


def named(names: list[str], **defaults: str) -> list[Parameter]:
    return [
        Parameter(n, i, True, False, default=defaults.get(n, OMITTED)) for i, n in enumerate(names)
    ]


MODEL = """
    _WEIGHTS = {"top": 0.0, "mid": 0.5}
    _KINDS = ("sum", "mean", "sqrtn")

    def build(position="mid", kind="mean", rule="a", size=3, name="x"):
        if kind not in _KINDS:
            raise ValueError(kind)
        weight = _WEIGHTS[position]

        def norm(x):
            return x if rule == "a" else {"a": 1, "b": 2}[rule] * x

        def pool(x, kind):
            return norm(x) * weight * size
        return pool
    """


@pytest.mark.parametrize("names", [["x", "kind", "position", "rule", "size", "name"]])
def test_what_the_factory_compares_and_looks_up(tmp_path, names) -> None:
    module = loaded(tmp_path / "words_here.py", MODEL)
    found = {name: clue.values for name, clue in clues(module.build(), named(names)).items()}
    assert found == {"position": ("top", "mid"), "rule": ("a", "b")}  # `kind` is pool's own


READER = """
    class Reader:
        def __init__(self, detector="square", axis="rows"):
            if detector not in ("square", "linear"):
                raise ValueError(detector)
            self._axis = axis

        def read(self, x):
            def inner(x):
                return x if self._axis == "rows" or self._axis == "columns" else -x
            return inner
    """


def test_what_the_class_compares_what_it_was_made_with(tmp_path) -> None:
    module = loaded(tmp_path / "reader_here.py", READER)
    inner = module.Reader().read(1.0)
    found = {
        name: clue.values for name, clue in clues(inner, named(["x", "detector", "axis"])).items()
    }
    assert found == {"detector": ("square", "linear"), "axis": ("rows", "columns")}


def test_what_stands_in_no_factory_has_none() -> None:
    assert clues(loaded, named(["path"])) == {}


def test_the_default_is_a_word_beside_the_one_that_the_class_compares_with(tmp_path) -> None:
    module = loaded(tmp_path / "reader_here.py", READER.replace(' or self._axis == "columns"', ""))
    inner = module.Reader().read(1.0)
    found = clues(inner, named(["x", "axis"], axis="columns"))
    assert found["axis"].values == ("rows", "columns")


PRICER = """
    import jax.numpy as jnp
    import numpy as np

    def build(accrual, bucket, knots, knee, steps, rate=0.1, notes=(1, 2, 0), bends=(1, 2, 0)):
        accrual = np.asarray(accrual, float)
        knee = jnp.asarray(knee, float)
        steps = int(np.asarray(steps, int))
        bucket = np.array(bucket, dtype=np.int64)
        rate = np.asarray(rate)
        sung = np.asarray(notes)
        bent = np.asarray(bends)

        def price(x):
            y = sung.astype(x.dtype) @ x + bent.astype(x.dtype) @ bent
            return (x[bucket] * accrual * rate)[:knots]
        return price
    """


def test_what_the_factory_makes_arrays_of(tmp_path) -> None:
    inner = loaded(tmp_path / "pricer_here.py", PRICER).build(np.ones(3), [0, 1, 1], 2, 1, 1)
    found = clues(
        inner,
        [
            *named(["x", "accrual", "bucket", "knots", "knee", "steps", "notes", "bends"]),
            *named(["rate"], rate="0"),
        ],
    )
    assert {name: clue.kind for name, clue in found.items()} == {
        "accrual": Kind.ARRAY,
        "bucket": Kind.INTEGERS,
        "notes": Kind.INTEGERS,
    }


DIVIDED = """
    def attention(heads, groups, width):
        per_group = heads // groups

        def spread(x):
            return x * per_group + x // 2 * width
        return spread
    """


def test_options_of_which_one_divides_the_other_are_whole(tmp_path) -> None:
    module = loaded(tmp_path / "heads_here.py", DIVIDED)
    names = named(["x", "heads", "groups", "width"])
    found = clues(module.attention(4, 2, 1), names)
    assert {name: (clue.kind, clue.values) for name, clue in found.items()} == {
        "heads": (Kind.WHOLE, (4, 6, 2)), "groups": (Kind.WHOLE, (2, 1))
    }  # fmt: skip


HANDED_ON = """
    def _operator(adjacency, norm):
        if norm == "sym":
            return adjacency + adjacency.T
        return _checked(adjacency, norm=norm)

    def _checked(adjacency, norm):
        if norm == "row":
            return adjacency / adjacency.sum(1, keepdims=True)
        raise ValueError(norm)

    def build(adjacency, norm, loud):
        matrix = _operator(adjacency, norm)

        def blend(x):
            return matrix @ x
        return blend
    """


def test_words_are_read_where_the_option_is_handed_to(tmp_path) -> None:
    inner = loaded(tmp_path / "handed_on_here.py", HANDED_ON).build(np.eye(3), "sym", True)
    found = clues(inner, named(["x", "adjacency", "norm", "loud"]))
    assert {name: clue.values for name, clue in found.items()} == {"norm": ("sym", "row")}
