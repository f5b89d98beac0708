"""Where the user's rule raises: the line in their code, and the calls that lead on from there."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.contract.report import Finding
from gradcheck_cli.discover import lines
from gradcheck_cli.subject.protocol import CustomGradient
from gradcheck_cli.subject.refusals import Frame

_OURS = Path(__file__).parents[1]
_JAX = "/jax/_src/"


def within(frames: Sequence[Frame], gradient: CustomGradient) -> Sequence[Frame]:
    """The frames from the user's own code on; none, if it is the framework that objects to what a rule gave."""
    first = next((n for n, frame in enumerate(frames) if _is_of(frame, gradient)), len(frames))
    return [frame for frame in frames[first:] if not _is_internal(frame, gradient)]


def at_the_line(finding: Finding, stack: Sequence[Frame], gradient: CustomGradient) -> Finding:
    """The finding, at the expression of the gradient's own file that was running last, or at its line."""
    own = [frame for frame in stack if _is_of(frame, gradient)]
    if not own:
        return finding
    line = own[-1].line
    text = linecache.getline(own[-1].path, line)
    first = len(text) - len(text.lstrip()) + 1
    start, end = first, max(first + 1, len(text.rstrip()) + 1)
    if (span := own[-1].span) is not None:
        start, end = (len(text.encode()[:n].decode(errors="ignore")) + 1 for n in span)
    return msgspec.structs.replace(finding, line=line, column=start, end_line=line, end_column=end)


def in_words(stack: Sequence[Frame], root: str) -> list[str]:
    """The calls as a traceback tells them, one a line."""
    return [f"{lines.shown(f.path, root)}:{f.line} in {f.function}" for f in stack]


def _is_internal(frame: Frame, gradient: CustomGradient) -> bool:
    """Is it a frame of ours, or inside JAX's own workings, of which the gradient is no part?"""
    inside_jax = _JAX in Path(frame.path).as_posix()
    return Path(frame.path).is_relative_to(_OURS) or (
        inside_jax and _JAX not in Path(gradient.place.path).as_posix()
    )


def _is_of(frame: Frame, gradient: CustomGradient) -> bool:
    home = gradient.place.path
    return frame.path == home or Path(frame.path).resolve() == Path(home).resolve()
