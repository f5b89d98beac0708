"""A run as the command line makes it: what goes on is shown, and a request to end is heeded."""

from __future__ import annotations

from collections.abc import Sequence

from gradcheck_cli.cli.interrupts import heeding_termination
from gradcheck_cli.cli.terminal import progress
from gradcheck_cli.project.files import Target
from gradcheck_cli.run.result import Result
from gradcheck_cli.run.session import Session
from gradcheck_cli.run.unfolding import Told


def checked(session: Session, targets: Sequence[Target], tell: Told | None) -> Result:
    """Check the targets; `tell` hears of files as they are done."""
    with progress(len(targets)) as show, heeding_termination():
        return session.run(targets, show, tell)
