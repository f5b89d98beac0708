"""An attempt at one subject: judged, or the reason why it could not be."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gradcheck_cli.check.outcome import GradientOutcome
from gradcheck_cli.check.request import Request
from gradcheck_cli.check.subject import judged
from gradcheck_cli.judge.unjudged import failed
from gradcheck_cli.measure.failure import Failure
from gradcheck_cli.project.intent_specs import Declared
from gradcheck_cli.reals.walk import NoRealMeaning
from gradcheck_cli.subject.environment import lacking
from gradcheck_cli.subject.protocol import Subject
from gradcheck_cli.subject.refusals import Rejected
from gradcheck_cli.subject.user_code import UserCodeError


def attempt(
    request: Request, subject: Subject, intents: Sequence[Declared], earlier: Sequence[Failure]
) -> Iterator[GradientOutcome]:
    """What each step adds to the outcome; one that fails adds why, and is the last one."""
    where = subject.signature.describe()
    try:
        yield from judged(request, subject, intents, earlier)
    except NoRealMeaning as error:
        yield GradientOutcome(beyond_inputs=True, reasons=(f"{where}: {error}",))
    except (Rejected, UserCodeError) as error:
        yield GradientOutcome(reasons=(f"{where}: {error}",))
    except Exception as error:  # a bug of ours at one signature leaves the others standing
        needed = lacking(error)
        if needed is not None:
            why = f"{where}: it needs {needed}, which is not here: {error}"
            yield GradientOutcome(beyond_inputs=True, reasons=(why,))
            return
        bug = failed(request.gradient, request.site, subject, error)
        yield GradientOutcome(findings=(bug,), reasons=(f"{where}: cgcheck itself failed",))
