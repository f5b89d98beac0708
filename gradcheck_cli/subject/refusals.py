"""Why a call gives no result: the signature is not taken, or the derivative rule raises."""

from __future__ import annotations

import sys
import traceback
from dataclasses import dataclass
from typing import Self

from gradcheck_cli.contract.errors import CgcheckError

TO_THE_END = sys.maxsize  # how far a function came that raised nothing


class Rejected(CgcheckError):
    """A signature that the function does not take: try another one. `detail` is the whole error.

    `progress` is how far the function came; 0 if nothing of it ran.
    """

    def __init__(self, message: str, detail: str = "", progress: int = 0) -> None:
        super().__init__(message)
        self.detail = detail or message
        self.progress = progress


@dataclass(frozen=True, slots=True)
class Furthest:
    """The call that came furthest in the function, with what it raised there: of several the first."""

    text: str
    progress: int = -1

    def or_further(self, other: Furthest) -> Furthest:
        """The one of both that came further."""
        return other if other.progress > self.progress else self


NO_CALL = Furthest("no signature was tried")


def progress(error: BaseException, path: str) -> int:
    """How many bytes of the code ran of the file's own function that was called, before something raised in it."""
    at = error.__traceback__
    while at is not None and at.tb_frame.f_code.co_filename != path:
        at = at.tb_next
    return 0 if at is None else at.tb_lasti


class Declined(Rejected):
    """The rule takes an argument for a number, not for a tensor to differentiate: offer it as one."""

    def __init__(self, argument: str) -> None:
        super().__init__(f"`{argument}` is a number, not a tensor")
        self.argument = argument


@dataclass(frozen=True, slots=True)
class Frame:
    """One call on the way to where an exception was raised."""

    path: str
    line: int
    function: str
    span: tuple[int, int] | None = None  # in bytes of the line: of what raised, if it ends there


class RuleError(CgcheckError):
    """The function runs, its derivative rule raises, or gives what no gradient can be. That is a finding."""

    def __init__(
        self,
        stage: str,
        message: str,
        *,
        certain: bool = False,
        silent: bool = False,
        error: BaseException | None = None,
        frames: tuple[Frame, ...] = (),
        complex_of: str = "",
        out_of_bounds: bool = False,
    ) -> None:
        super().__init__(message)
        self.stage = stage
        self.message = message
        self.certain = certain  # wrong whatever the shapes: the number of gradients, say
        self.silent = silent  # it does not raise: we say that it is wrong
        self.error = error  # what was raised
        self.complex_of = complex_of  # the real argument for which it gives a complex gradient
        self.frames = frames or _frames(error)
        self.out_of_bounds = out_of_bounds  # a kernel of it leaves its arrays

    @classmethod
    def raised(
        cls,
        error: Exception | SystemExit,
        message: str,
        *,
        certain: bool = False,
        out_of_bounds: bool = False,
    ) -> Self:
        """What running the rule raised; a name that is not there is missing whatever the shapes."""
        return cls(
            type(error).__name__, message, certain=certain or type(error) is NameError,
            error=error, out_of_bounds=out_of_bounds,
        )  # fmt: skip

    def surely(self) -> Self:
        """This error, at shapes that are meant."""
        return type(self)(
            self.stage, self.message, certain=True, silent=self.silent, error=self.error,
            frames=self.frames, complex_of=self.complex_of, out_of_bounds=self.out_of_bounds,
        )  # fmt: skip


def _frames(error: BaseException | None) -> tuple[Frame, ...]:
    stack = traceback.extract_tb(error.__traceback__) if error is not None else ()
    return tuple(Frame(each.filename, each.lineno or 1, each.name, _span(each)) for each in stack)


def _span(frame: traceback.FrameSummary) -> tuple[int, int] | None:
    """Where in its line what was running begins and ends."""
    if frame.colno is None or frame.end_colno is None or frame.end_lineno != frame.lineno:
        return None
    return frame.colno, frame.end_colno


NO_GRAD_FUNCTION = "TypeError: it returns no grad function: write `return value, grad`"
