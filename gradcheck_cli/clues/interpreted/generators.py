"""Arrays out of a random generator, in each framework's way of asking for them."""

from __future__ import annotations

from collections.abc import Callable

from gradcheck_cli.clues.interpreted.arguments import MISSING, Arguments
from gradcheck_cli.clues.interpreted.ranges import (
    ANYWHERE,
    DRAWN,
    OPEN_UNIT,
    POSITIVE,
    Range,
)
from gradcheck_cli.clues.interpreted.shapes import literal, shape_of
from gradcheck_cli.clues.interpreted.values import (
    BOOL,
    FLOAT,
    INT,
    KEY,
    UNKNOWN,
    Array,
    Library,
    Shape,
    Value,
)

Rule = Callable[[Arguments], Value]


def made(kind: str | None, shape: Shape | None, span: Range = ANYWHERE, family: str = "") -> Value:
    """An array, if its kind and its shape can be read."""
    return UNKNOWN if kind is None or shape is None else Array(kind, shape, span, family)


def whole(shape: Shape | None, low: Value, high: Value) -> Value:
    """Whole numbers from `low` up to, and without, `high`."""
    if type(low) is int and type(high) is int and low < high:
        return made(INT, shape, Range(low, high - 1))
    return made(INT, shape)


def between(shape: Shape | None, low: float | None, high: float | None) -> Value:
    """Numbers that are drawn evenly from an interval."""
    if low is None or high is None or not low < high:
        return made(FLOAT, shape)
    span = DRAWN if (low, high) == (0.0, 1.0) else Range(low, high, is_drawn=True)
    return made(FLOAT, shape, span)


def of_size(*places: int, span: Range = ANYWHERE) -> Rule:
    """A rule for `normal(loc, scale, size)`: the shape at a place, or by name; none is one number."""

    def rule(a: Arguments) -> Value:
        value = a.at(places[0], "size", "shape")
        return made(FLOAT, () if value is MISSING or value is None else shape_of(value), span)

    return rule


def _sizes_one_by_one(span: Range) -> Rule:
    def rule(a: Arguments) -> Value:
        return made(FLOAT, shape_of(list(a.args)), span)

    return rule


def _numpy_uniform(a: Arguments) -> Value:
    low = 0.0 if a.at(0, "low") is MISSING else a.number(0, "low")
    high = 1.0 if a.at(1, "high") is MISSING else a.number(1, "high")
    return between(_numpy_size(a, 2), low, high)


def _numpy_integers(a: Arguments) -> Value:
    low, high, shape = a.at(0, "low"), a.at(1, "high"), _numpy_size(a, 2)
    return whole(shape, 0, low) if high is MISSING or high is None else whole(shape, low, high)


def _numpy_size(a: Arguments, place: int) -> Shape | None:
    value = a.at(place, "size")
    return () if value is MISSING or value is None else shape_of(value)


def _shuffled(a: Arguments) -> Value:
    """`permutation(5)`: each number once; `permutation(x)`: an array as it is, in another order."""
    value = a.at(1 if a.root == "jax" else 0, "x", "n")
    if type(value) is int and value > 0:
        return whole((value,), 0, value)
    array = literal(value)
    return UNKNOWN if array is None else Array(array.kind, array.shape, array.range)


def _numpy_dirichlet(a: Arguments) -> Value:
    alpha, shape = a.array(0, "alpha"), _numpy_size(a, 1)
    if alpha is None or shape is None:
        return UNKNOWN
    return Array(FLOAT, (*shape, *alpha.shape), family="simplex")


NUMPY: dict[str, Rule] = {
    "randn": _sizes_one_by_one(ANYWHERE),
    "rand": _sizes_one_by_one(DRAWN),
    "normal": of_size(2),
    "standard_normal": of_size(0),
    "laplace": of_size(2),
    "random": of_size(0, span=DRAWN),
    "random_sample": of_size(0, span=DRAWN),
    "uniform": _numpy_uniform,
    "randint": _numpy_integers,
    "integers": _numpy_integers,
    "exponential": of_size(1, span=POSITIVE),
    "standard_exponential": of_size(0, span=POSITIVE),
    "gamma": of_size(2, span=POSITIVE),
    "lognormal": of_size(2, span=POSITIVE),
    "chisquare": of_size(1, span=POSITIVE),
    "beta": of_size(2, span=OPEN_UNIT),
    "dirichlet": _numpy_dirichlet,
    "permutation": _shuffled,
    "default_rng": lambda a: Library("numpy.random"),
    "RandomState": lambda a: Library("numpy.random"),
    "Generator": lambda a: Library("numpy.random"),
}


def _jax(place: int, span: Range = ANYWHERE) -> Rule:
    """A rule for `normal(key, shape)`."""

    def rule(a: Arguments) -> Value:
        value = a.at(place, "shape")
        shape = () if value is MISSING else shape_of(value)
        return made(a.kind(place + 1, FLOAT) and FLOAT, shape, span)

    return rule


def _jax_uniform(a: Arguments) -> Value:
    low = 0.0 if a.at(3, "minval") is MISSING else a.number(3, "minval")
    high = 1.0 if a.at(4, "maxval") is MISSING else a.number(4, "maxval")
    value = a.at(1, "shape")
    return between(() if value is MISSING else shape_of(value), low, high)


def _jax_dirichlet(a: Arguments) -> Value:
    alpha, value = a.array(1, "alpha"), a.at(2, "shape", default=())
    shape = shape_of(value)
    if alpha is None or shape is None:
        return UNKNOWN
    return Array(FLOAT, (*shape, *alpha.shape), family="simplex")


def _square(a: Arguments) -> Value:
    size = a.at(1, "n")
    return made(FLOAT, shape_of([size, size]) if type(size) is int else None, family="orthogonal")


def _keys(a: Arguments) -> Value:
    """Two keys, or as many as are asked for."""
    count = a.at(1, "num", default=2)
    return [KEY] * count if type(count) is int and 0 < count <= 64 else UNKNOWN


JAX: dict[str, Rule] = {
    "key": lambda a: KEY,
    "PRNGKey": lambda a: KEY,
    "fold_in": lambda a: KEY,
    "split": _keys,
    "normal": _jax(1),
    "laplace": _jax(1),
    "cauchy": _jax(1),
    "truncated_normal": _jax(3),
    "uniform": _jax_uniform,
    "exponential": _jax(1, POSITIVE),
    "gamma": _jax(2, POSITIVE),
    "beta": _jax(3, OPEN_UNIT),
    "dirichlet": _jax_dirichlet,
    "randint": lambda a: whole(a.shape(1, "shape"), a.at(2, "minval"), a.at(3, "maxval")),
    "bernoulli": lambda a: made(BOOL, shape_of(a.at(2, "shape", default=()))),
    "permutation": _shuffled,
    "orthogonal": _square,
}


def _torch(span: Range = ANYWHERE) -> Rule:
    """A rule for `randn(3, 4)`, `randn((3, 4))` and `randn(size=(3, 4))`."""

    def rule(a: Arguments) -> Value:
        return made(FLOAT, a.shape(0, "size"), span)

    return rule


def _torch_integers(a: Arguments) -> Value:
    if isinstance(a.at(1), (tuple, list)) or ("size" in a.kwargs and a.at(1, "low") is MISSING):
        made_of = whole(a.shape(1, "size"), 0, a.at(0, "high"))
    else:
        made_of = whole(a.shape(2, "size"), a.at(0, "low"), a.at(1, "high"))
    kind = a.kind(-1, INT)
    return made_of if kind == INT else UNKNOWN


def _torch_normal(a: Arguments) -> Value:
    mean = a.at(0, "mean")
    return made(FLOAT, mean.shape if isinstance(mean, Array) else a.shape(2, "size"))


def like(span: Range = ANYWHERE) -> Rule:
    """A rule for `rand_like(x)`."""

    def rule(a: Arguments) -> Value:
        array = a.array(0, "input")
        return UNKNOWN if array is None else made(a.kind(-1, array.kind), array.shape, span)

    return rule


TORCH: dict[str, Rule] = {
    "randn": _torch(),
    "rand": _torch(DRAWN),
    "randint": _torch_integers,
    "normal": _torch_normal,
    "randperm": lambda a: whole(shape_of(a.at(0, "n")), 0, a.at(0, "n")),
    "rand_like": like(DRAWN),
    "randn_like": like(),
}


def _shape_first(a: Arguments) -> Value:
    return made(a.kind(3, FLOAT) and FLOAT, a.shape(0, "shape"))


def _keras_uniform(a: Arguments) -> Value:
    low = 0.0 if a.at(1, "minval") is MISSING else a.number(1, "minval")
    high = 1.0 if a.at(2, "maxval") in (MISSING, None) else a.number(2, "maxval")
    kind = a.kind(3, FLOAT)
    if kind == INT:
        return whole(a.shape(0, "shape"), a.at(1, "minval", default=0), a.at(2, "maxval"))
    return between(a.shape(0, "shape"), low, high) if kind == FLOAT else UNKNOWN


KERAS: dict[str, Rule] = {
    "normal": _shape_first,
    "truncated_normal": _shape_first,
    "uniform": _keras_uniform,
    "randint": lambda a: whole(a.shape(0, "shape"), a.at(1, "minval"), a.at(2, "maxval")),
    "shuffle": _shuffled,
}
