"""All laws asked of one subject; a bug of ours in one of them leaves the others standing."""

from __future__ import annotations

from collections.abc import Iterator

from gradcheck_cli.check.request import Request
from gradcheck_cli.check.second_order import as_wanted
from gradcheck_cli.judge.laws import LAWS
from gradcheck_cli.judge.laws.law import Judgement, judgement
from gradcheck_cli.measure.measurements import Measurements


def judgements_of_laws(request: Request, m: Measurements) -> Iterator[Judgement | Exception]:
    """The judgement of each law, or what it raised."""
    for law in LAWS:
        try:
            with request.progress.timing(law.name):
                result: Judgement | Exception = as_wanted(request, judgement(law, m))
        except Exception as error:
            result = error
        yield result
