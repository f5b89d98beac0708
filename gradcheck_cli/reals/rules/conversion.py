"""Casts: between floats the identity, to integers the discrete functions they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.reals.rules.rule import Rule
from gradcheck_cli.reals.three_valued import YES


def _convert(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    (x,) = values
    source, target = step.in_avals[0].kind, step.out_avals[0].kind
    dtype = step.out_avals[0].dtype
    if source == target and source in "fbc":
        return [x]
    if target == "c":
        return [domain.as_kind("c", source, x)]
    if source == "c":  # JAX drops the imaginary part
        (x,), source = [domain.complex_unary("real", x)], "f"
        if target == "f":
            return [x]
    if target == "f":
        return [domain.from_tri(x) if source == "b" else domain.from_integers(x)]
    if source == "f":
        return [domain.to_integers(x, dtype) if target == "i" else domain.nonzero(x)]
    if target == "b":
        return [np.where(np.asarray(x) != 0, YES, 0).astype(np.int8)]
    if source == "b":
        return [domain.known(x).astype(dtype)]
    return [np.asarray(x).astype(dtype)]


def _sign_bit(domain: Any, step: Any, values: list[Any], walk: Any) -> list[Any]:
    return [domain.sign_bits(values[0], step.out_avals[0].dtype)]


TABLE: dict[str, Rule] = {"convert_element_type": _convert, "sign_bit": _sign_bit}
