"""What became of each value of a run, float beside ball: its correct bits, and whether it left its range."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.measure.components import as_floats
from gradcheck_cli.measure.correct_bits import correct_bits
from gradcheck_cli.reals.float_trace import Shadow, single
from gradcheck_cli.reals.program import Aval, Step

Array = np.ndarray[Any, Any]


def bits_beside(floats: Any, balls: Any) -> Array:
    """Correct bits of each float; one that is beyond the format's range counts as what it stands for."""
    native = np.asarray(floats)
    fmt = format_of(str(native.dtype))
    numbers, truth = native.astype(np.float64), as_floats(single(balls))
    same_side = np.sign(numbers) == np.sign(truth)
    overflows = (np.abs(truth) > fmt.max) & np.isinf(numbers) & same_side
    underflows = (np.abs(truth) < fmt.tiny) & (np.abs(numbers) <= fmt.tiny)
    excused = overflows | underflows | np.isnan(truth)
    return np.where(excused, float(fmt.digits), correct_bits(numbers, truth, fmt))


def least_bits(run: Shadow, slot: int) -> float:
    """Correct bits of the worst float of a slot; infinite where there is none to be wrong."""
    balls = run.balls[slot]
    certain = isinstance(balls, np.ndarray) and balls.dtype == object
    if not certain or not _is_float(run.floats[slot]):
        return np.inf
    return float(bits_beside(run.floats[slot], balls).min(initial=np.inf))


def out_of_range(run: Shadow, slots: tuple[int, ...]) -> int | None:
    """A slot with an infinity or a zero where the truth is neither."""
    for slot in slots:
        if slot in run.program.constants or not _is_float(run.floats[slot]):
            continue
        if _strays(run, slot).any():
            return slot
    return None


def in_words(run: Shadow, step: Step) -> str:
    """As in `overflows in float32: it is 2.69e+43`, for a step that left the range."""
    slot = next(s for s in step.outs if _strays(run, s).any())
    at = int(np.flatnonzero(_strays(run, slot).reshape(-1))[0])
    number = float(np.asarray(run.floats[slot]).reshape(-1)[at])
    truth = run.balls[slot].reshape(-1)[at].str(3, radius=False)
    how = "overflows" if np.isinf(number) else "underflows to 0"
    return f"{how} in {format_after(run, step).name}: it is {truth}"


def format_after(run: Shadow, step: Step) -> Format:
    """The format of the floats that a step makes."""
    slot = next(slot for slot in step.outs if _is_float(run.floats[slot]))
    return format_of(str(run.floats[slot].dtype))


def _strays(run: Shadow, slot: int) -> Array:
    """Which floats of a slot are infinite or zero where the truth is neither."""
    balls = run.balls[slot]
    numbers, truth = np.asarray(run.floats[slot]).astype(np.float64), as_floats(single(balls))
    overflown = np.isinf(numbers) & ~np.isinf(truth)
    not_zero = np.array([not b.contains(0) for b in balls.reshape(-1)]).reshape(numbers.shape)
    return np.asarray(~np.isnan(truth) & (overflown | ((numbers == 0) & not_zero)))


def _is_float(value: Any) -> bool:
    """Is it an array of floats, numpy's own or bfloat16?"""
    return Aval((), getattr(value, "dtype", np.dtype(int))).kind == "f"
