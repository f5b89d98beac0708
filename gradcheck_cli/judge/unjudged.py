"""Findings about a gradient that could not be judged: its rule is refused, or cgcheck itself failed."""

from __future__ import annotations

import linecache
import re
import traceback
from collections.abc import Sequence
from pathlib import Path

import msgspec

from gradcheck_cli.contract.report import Finding, Severity
from gradcheck_cli.contract.rule_names import RuleName
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.fingerprint import Site, fingerprint
from gradcheck_cli.judge.outline import outline
from gradcheck_cli.judge.raised import at_the_line, in_words, within
from gradcheck_cli.judge.reproduce import checking
from gradcheck_cli.project.rule_pages import find
from gradcheck_cli.subject.protocol import CustomGradient, Shaped
from gradcheck_cli.subject.refusals import Frame, RuleError

# By the stage of a refusal, where what the page of the rule says does not help.
_HELP = {
    "unwritten": "launch as many programs as the array has blocks, its rest too, or begin with `torch.zeros`",
}


def refused(
    gradient: CustomGradient,
    site: Site,
    signature: Signature,
    error: RuleError,
    severity: Severity,
    dtype: str,
) -> Finding:
    """The framework refused the rule at a signature that the function takes."""
    where = signature.describe()
    stack = within(error.frames, gradient)
    rule = RuleName.RULE_RAISES if stack else RuleName.GRADIENT_STRUCTURE
    if stack and severity is Severity.ERROR and _is_of_no_name(error.error, stack):
        rule = RuleName.UNDEFINED_NAME
    if error.out_of_bounds and severity is Severity.ERROR:
        rule = RuleName.OUT_OF_BOUNDS
    raised = (
        error.message if error.silent else f"the function runs and its rule raises {error.message}"
    )
    message = f"at {where}, {raised}"
    note = severity is Severity.NOTE
    if note:
        message = f"the function takes {where}, its rule does not"
    told = error.message if note else _HELP.get(error.stage)
    finding = outline(rule, severity, message, gradient, site, help=told)
    return msgspec.structs.replace(
        finding if note else at_the_line(finding, stack, gradient),
        dtypes=[dtype],
        traceback=[] if note else in_words(stack, site.root),
        fingerprint=fingerprint(rule, site, error.stage, 0),
        reproduce=checking(site),
    )


def _is_of_no_name(error: BaseException | None, stack: Sequence[Frame]) -> bool:
    """Does nothing at all give the name a value? One of an enclosing function may have one at other shapes, a `global` later."""
    if type(error) is not NameError or not str(error).startswith(f"name {error.name!r} is not"):
        return False
    later = re.compile(rf"\bglobal\b[^\n]*\b{re.escape(error.name or '')}\b|\bglobals\(\)")
    return not any(later.search("".join(linecache.getlines(frame.path))) for frame in stack[-1:])


def failed(gradient: CustomGradient, site: Site, subject: Shaped, error: Exception) -> Finding:
    """A bug of ours at one signature: what other laws and signatures found still stands."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = (
        f"at {subject.signature.describe()}, cgcheck itself failed: {type(error).__name__}: "
        f"{error} ({Path(last.filename).name}:{last.lineno})"
    )
    rule = RuleName.INTERNAL_ERROR
    return outline(rule, find(rule).severity, message, gradient, site)
