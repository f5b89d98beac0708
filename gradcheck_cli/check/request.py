"""A request to check one gradient: which it is, where it stands, under which settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gradcheck_cli.check.progress import Progress
from gradcheck_cli.contract.worker import Task
from gradcheck_cli.inputs.signature import Signature
from gradcheck_cli.judge.fingerprint import Site
from gradcheck_cli.subject.protocol import CustomGradient, Framework


@dataclass(frozen=True, slots=True)
class Request:
    """What stays the same while one gradient is checked; `calls` are those of this very process."""

    gradient: CustomGradient
    framework: Framework
    task: Task
    site: Site
    progress: Progress
    calls: Sequence[Signature] = ()

    @property
    def too_long(self) -> str:
        """Why something is left out when time is up."""
        limit = f"{self.task.max_time:g}"
        return f"it took longer than the {limit} s that a worker has: raise --max-time"
