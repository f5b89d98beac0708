"""Arguments of a call of a library's function, and what its `dtype` and its shape say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradcheck_cli.clues.interpreted.shapes import is_size, literal, shape_of
from gradcheck_cli.clues.interpreted.values import BOOL, FLOAT, INT, Array, Library, Shape, Value

_FLOAT = re.compile(r"b?float\d*|half|double|floatx|float_|FloatTensor")
_INT = re.compile(r"u?int\d*|long|short|int_|LongTensor|IntTensor")
_BOOL = re.compile(r"bool_?|BoolTensor")


class _Missing:
    pass


MISSING = _Missing()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The arguments of one call; `root` is the library that is called."""

    root: str
    args: Sequence[Value]
    kwargs: Mapping[str, Value]

    def at(self, index: int, *names: str, default: Value = MISSING) -> Value:
        """The argument at this place, or by one of these names."""
        for name in names:
            if name in self.kwargs:
                return self.kwargs[name]
        return self.args[index] if 0 <= index < len(self.args) else default

    def array(self, index: int, *names: str) -> Array | None:
        """The argument as an array, if it is one or nested numbers."""
        return literal(self.at(index, *names))

    def number(self, index: int, *names: str) -> float | None:
        """The argument as a plain number."""
        value = self.at(index, *names)
        plain = isinstance(value, (int, float)) and not isinstance(value, bool)
        return float(value) if plain and isinstance(value, (int, float)) else None

    def flag(self, *names: str) -> bool | None:
        """A switch that is off where it is not named; None where it cannot be read."""
        value = self.at(-1, *names, default=False)
        return value if isinstance(value, bool) else None

    def shape(self, index: int, *names: str) -> Shape | None:
        """The shape that the call asks for; torch takes its sizes one by one, too."""
        value = self.at(index, *names)
        sizes = list(self.args[index:])
        if self.root == "torch" and len(sizes) > 1 and all(map(is_size, sizes)):
            return shape_of(sizes)
        return None if value is MISSING else shape_of(value)

    def kind(self, index: int, default: str) -> str | None:
        """What the `dtype` is of; None where it cannot be read."""
        dtype = self.at(index, "dtype")
        return default if dtype is MISSING or dtype is None else kind_of(dtype)


def kind_of(dtype: Value) -> str | None:
    """The kind of numbers that a dtype is of: `jnp.float32`, `"int64"`, `bool`."""
    name = dtype.last if isinstance(dtype, Library) else dtype
    if not isinstance(name, str):
        return None
    for pattern, kind in ((_FLOAT, FLOAT), (_INT, INT), (_BOOL, BOOL)):
        if pattern.fullmatch(name):
            return kind
    return None
