"""How a custom gradient was called in a recorded run."""

from __future__ import annotations

import msgspec


class FloatArg(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="float", omit_defaults=True
):
    """An array of floats: its numbers if they are few, else what is known of them."""

    dtype: str
    shape: list[int]
    low: float | None = None
    high: float | None = None
    values: list[float] | None = None
    structure: str | None = None  # a family of the input language


class IntArg(
    msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="int", omit_defaults=True
):
    """An array of integers or booleans."""

    dtype: str
    shape: list[int]
    low: int | None = None
    high: int | None = None
    values: list[int] | None = None


class PlainArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="value"):
    value: bool | int | float | str | None


class TreeArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="tree"):
    """A dict or an object of fields (with names), a list or a tuple of arguments."""

    kind: str
    items: list[RecordedArg]
    names: list[str] = []


class OpaqueArg(msgspec.Struct, frozen=True, kw_only=True, tag_field="is", tag="other"):
    """What is not kept: a function, an object without fields."""

    type: str


RecordedArg = FloatArg | IntArg | PlainArg | TreeArg | OpaqueArg


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """One way in which a custom gradient was called."""

    arguments: dict[str, RecordedArg]
