"""Losses that explicit casts explain (SEMANTICS A6): judged against the narrowest dtype on the way.

The primal's own casts count; a rule that narrows where its primal does not is judged as usual.
"""

from __future__ import annotations

from dataclasses import replace

from gradcheck_cli.inputs.floats import Format, format_of
from gradcheck_cli.reals.program import Program

_FORMATS = ("float64", "float32", "bfloat16", "float16")


def narrowest(program: Program, fmt: Format) -> Format | None:
    """The narrowest float format that the program computes in, if narrower than its inputs'."""
    names = {
        str(aval.dtype)
        for step in program.all_steps()
        for aval in (*step.in_avals, *step.out_avals)
        if aval.kind == "f"
    }
    narrow = min(
        (format_of(n) for n in names if n in _FORMATS), key=lambda f: f.digits, default=fmt
    )
    return narrow if narrow.digits < fmt.digits else None


def as_if_in(fmt: Format, narrow: Format) -> Format:
    """Floats of one format, judged as if they were of a narrower one."""
    return replace(
        fmt,
        eps=narrow.eps,
        digits=narrow.digits,
        tiny=max(fmt.tiny, narrow.tiny),
        underflow=max(fmt.underflow, narrow.underflow),
        max=min(fmt.max, narrow.max),
    )
