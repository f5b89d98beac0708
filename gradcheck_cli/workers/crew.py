"""Who does the tasks of a run: the workers of this machine, or those of a cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gradcheck_cli.contract.worker import Kind, Task
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.workers.machine import Machine
from gradcheck_cli.workers.pool import Heard, WorkerEnd


class Crew(Protocol):
    """Does tasks, several at once, and survives whatever they do."""

    @property
    def shares(self) -> int:
        """How many parts a long task is best cut into."""

    def expect(self, kind: Kind) -> None:
        """Tasks of this kind will come: what they need may begin."""

    def run(self, kind: Kind, tasks: Sequence[Task], heard: Heard) -> list[WorkerEnd]:
        """The end of each task, in order, each heard as it comes; an interrupt becomes an `Interrupted` with the ends until then."""

    def close(self) -> None:
        """End whatever was begun."""


def crew(settings: Settings) -> Crew:
    """The crew that the settings name."""
    if settings.cluster:
        from gradcheck_cli.workers.cluster import Cluster

        return Cluster(settings.cluster, settings.memory_limit)
    return Machine(settings.device, settings.jobs, settings.memory_limit)
