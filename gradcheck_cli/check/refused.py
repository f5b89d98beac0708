"""What becomes of signatures that the function takes and its rule does not: a finding, or what is in the way."""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Sequence
from types import FunctionType

from gradcheck_cli.check.invented import softened
from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.contract.report import LawResult, Outcome, Severity
from gradcheck_cli.infer.single_numbers import broadcast_refused
from gradcheck_cli.inputs.signature import Fixed, Hints, Signature
from gradcheck_cli.judge import unjudged
from gradcheck_cli.judge.laws.structure import STRUCTURE_LAW
from gradcheck_cli.subject.environment import lacking
from gradcheck_cli.subject.protocol import CustomGradient, Subject
from gradcheck_cli.subject.refusals import RuleError


def broken(request: Request, signature: Signature, error: RuleError, dtype: str) -> GradientOutcome:
    """The function takes the signature and its rule raises, or gives what no gradient can be."""
    obstacle = _obstacle(signature, error, request.gradient)
    if obstacle:
        why = f"at {signature.describe()}, {obstacle}"
        no_input = lacking(error.error) is not None or _is_unwritten(error, request.gradient)
        return GradientOutcome(reasons=(why,), beyond_inputs=no_input)
    # With several arguments, the shapes that were made up may be ones that nobody means.
    sure = len(signature.whole_leaves) == 1 or error.certain
    severity = Severity.ERROR if sure else Severity.WARNING
    structure = LawResult(law=STRUCTURE_LAW, outcome=Outcome.FAIL)
    finding = refused(request, signature, error, severity, dtype)
    wanted = ((signature, dtype),) if sure else ()
    failed = GradientOutcome(checked=True, laws=(structure,), refused=wanted)
    return finding + softened(request, signature, failed)


def refused(
    request: Request, signature: Signature, error: RuleError, severity: Severity, dtype: str
) -> GradientOutcome:
    """A finding beside what was judged at other signatures; none, where it says nothing of the rule."""
    if _obstacle(signature, error, request.gradient):
        return GradientOutcome()
    finding = unjudged.refused(request.gradient, request.site, signature, error, severity, dtype)
    return softened(request, signature, GradientOutcome(findings=(finding,)))


def refused_broadcast(
    request: Request, subjects: Sequence[Subject], dtype: str, hints: Hints
) -> GradientOutcome:
    """A note, if the function takes a single number beside arrays and its rule does not."""
    narrow = broadcast_refused(request.gradient, subjects, dtype, hints)
    if narrow is None:
        return GradientOutcome()
    signature, error = narrow
    return refused(request, signature, error, Severity.NOTE, dtype)


def _obstacle(signature: Signature, error: RuleError, gradient: CustomGradient) -> str:
    """Why what the rule raises is no fault of it: it says that it is not written, something is not here, or nobody means a value."""
    if _is_unwritten(error, gradient):
        return f"its rule says that it is not written: it raises {error.message}"
    needed = lacking(error.error)
    if needed is not None:
        return f"the rule needs {needed}, which is not here: {error.message}"
    guesses = ((n, v) for n, v in signature.arguments if isinstance(v, Fixed) and v.is_guess)
    chosen = [f"{name}={value.text}" for name, value in guesses]
    if chosen and not error.certain and not error.silent:
        return f"with {', '.join(chosen)}, which cgcheck chose, the rule raises {error.message}"
    return ""


def _is_unwritten(error: RuleError, gradient: CustomGradient) -> bool:
    """Does the rule itself refuse a gradient aloud, by raising `NotImplementedError`? What it calls may have been forgotten."""
    if not isinstance(error.error, NotImplementedError) or not error.frames:
        return False
    last = error.frames[-1]
    line = linecache.getline(last.path, last.line).strip()
    return line.startswith("raise NotImplementedError") and any(
        last.path == function.__code__.co_filename and last.line in _lines(function)
        for function in gradient.rule_code()
    )


def _lines(function: FunctionType) -> range:
    """The lines of a function in its file."""
    try:
        lines, first = inspect.getsourcelines(function)
    except (OSError, TypeError):
        return range(0)
    return range(first, first + len(lines))
