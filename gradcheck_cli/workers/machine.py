"""The workers of this machine: a few at a time, forked from a warm server for each kind."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from gradcheck_cli.contract.worker import Kind, Task
from gradcheck_cli.workers.pool import Heard, Pool, WorkerEnd
from gradcheck_cli.workers.spawn import Launcher, launcher


@dataclass(slots=True)
class Machine:
    """As many workers at a time as the settings allow, or as there are cores."""

    device: str
    jobs: int
    memory_limit: int  # MiB for each worker
    folder: str | None = None  # where workers start; None: here
    _servers: dict[Kind, Launcher] = field(default_factory=dict)
    _pools: dict[Kind, Pool] = field(default_factory=dict)

    @property
    def shares(self) -> int:
        """How many parts a long task is best cut into: as many as are done at once."""
        return max(1, self.jobs or os.cpu_count() or 1)

    def expect(self, kind: Kind) -> None:
        """Start the server of this kind: it imports its frameworks while others do something else."""
        if kind not in self._servers:
            server = self._servers[kind] = launcher(self.device, *kind, self.folder)
            self._pools[kind] = Pool(server, self.shares, self.memory_limit)

    def run(self, kind: Kind, tasks: Sequence[Task], heard: Heard) -> list[WorkerEnd]:
        """The end of each task's worker, in order."""
        self.expect(kind)
        return self._pools[kind].run(tasks, heard)

    def close(self) -> None:
        """Without their servers all workers end."""
        for server in self._servers.values():
            server.close()
        self._servers.clear()
        self._pools.clear()
