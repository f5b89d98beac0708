"""The workers of a cluster, by way of dask: tasks go to whichever node is free, and to another one if it is lost."""

from __future__ import annotations

import functools
import logging
import re
import uuid
from collections.abc import Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from gradcheck_cli.contract.errors import CgcheckError, UsageError, UserError
from gradcheck_cli.contract.worker import Kind, Task
from gradcheck_cli.workers.cluster_node import Order, digest, do, ended, leave, release
from gradcheck_cli.workers.pool import End, Heard, Interrupted, WorkerEnd

_LOCAL = "local:"  # and a number: that many nodes on this machine, for trial
# Of a scheduler; without a scheme it is TCP.
_ADDRESS = re.compile(r"(?:\w+://)?[^/]+:\d+/?|wss?://.+")
_SHARES = 4  # of a long task for each thread of the cluster: so much is lost with a node at most
_ANSWER = 20.0  # seconds until the cluster has to answer
_NODES = 60.0  # seconds until its first node has to be there
_GONE = (CancelledError, OSError, RuntimeError)  # what asking a cluster raises that is no more
_INTERRUPTED = WorkerEnd(End.INTERRUPTED, (), None, None, 0.0)


class _Written(msgspec.Struct):
    """What a scheduler writes of itself."""

    address: str


@dataclass
class Cluster:
    """A scheduler by its address, or by the file that it wrote; or `local:N`. It is asked when it is needed."""

    address: str
    memory_limit: int  # MiB for each worker
    _run: str = field(default_factory=lambda: uuid.uuid4().hex)
    _sent: int = 0
    _open: list[Any] = field(default_factory=list)  # what is to be closed, the last first

    @property
    def shares(self) -> int:
        """How many parts a long task is best cut into."""
        threads: dict[str, int] = self._client.nthreads()
        return _SHARES * max(1, sum(threads.values()))

    def expect(self, kind: Kind) -> None:
        """Ask the cluster whether it is there; what a kind needs its nodes begin by themselves."""
        _ = self._client

    def run(self, kind: Kind, tasks: Sequence[Task], heard: Heard) -> list[WorkerEnd]:
        """The end of each task, in order; its events are heard when it ends."""
        from distributed import as_completed

        ends = [_INTERRUPTED] * len(tasks)
        futures = [self._submit(kind, task) for task in tasks]
        places = {future.key: place for place, future in enumerate(futures)}
        try:
            for future in as_completed(futures, loop=self._client.loop):
                place = places[future.key]
                ends[place] = self._end(future)
                for event in (*ends[place].events, ends[place]):
                    heard(tasks[place], event)
        except KeyboardInterrupt:
            raise Interrupted(ends) from None
        finally:
            with suppress(*_GONE):
                self._client.cancel(futures)
        return ends

    def close(self) -> None:
        """Nodes let go of the run; the cluster itself stays, if it is not this run's own."""
        if "_client" in vars(self):  # one that never answered is not asked again
            with suppress(*_GONE):
                self._client.run(leave, self._run)
        while self._open:
            self._open.pop().close()

    @functools.cached_property
    def _client(self) -> Any:
        try:
            import distributed
        except ImportError:
            raise UserError("`--cluster` needs dask: pip install 'cgcheck[cluster]'") from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)
        try:
            client = distributed.Client(set_as_default=False, timeout=_ANSWER, **self._named())
            self._open.append(client)
            client.wait_for_workers(1, timeout=_NODES)
        except (OSError, ValueError, TypeError, RuntimeError) as error:  # by what is wrong with it
            reason = str(error) or "it does not answer"
            raise UserError(f"the cluster at {self.address}: {reason}") from None
        return client

    def _named(self) -> dict[str, Any]:
        """The scheduler as dask's client takes it."""
        if not self.address.startswith(_LOCAL):
            return {"address": self._scheduler()}
        from distributed import LocalCluster

        count = self.address.removeprefix(_LOCAL)
        if not count.isdecimal() or not int(count):
            raise UsageError(f"`{self.address}`: say how many nodes, as in `local:4`")
        cluster = LocalCluster(
            n_workers=int(count), threads_per_worker=1, dashboard_address="127.0.0.1:0",
            silence_logs=logging.CRITICAL,
        )  # fmt: skip
        self._open.append(cluster)
        return {"address": cluster}

    def _scheduler(self) -> str:
        """The address of a scheduler, as it is given or as a scheduler wrote it into a file."""
        address = self.address
        if Path(address).is_file():
            with suppress(OSError, msgspec.MsgspecError):
                address = msgspec.json.decode(Path(address).read_bytes(), type=_Written).address
        if _ADDRESS.fullmatch(address):
            return address
        raise UsageError(
            f"`{self.address}` is no scheduler: its address, as in `tcp://host:8786`, the file that it wrote, or "
            "`local:4`"
        )

    def _submit(self, kind: Kind, task: Task) -> Any:
        self._sent += 1
        order = Order(
            run=self._run,
            folder=str(Path.cwd()),
            frameworks=sorted(kind[0]),
            backend=kind[1],
            memory_limit=self.memory_limit,
            content=digest(task.path) if task.path else None,
            task=task,
        )
        sent = msgspec.msgpack.encode(order)
        return self._client.submit(do, release(), sent, key=f"cgcheck-{self._run}-{self._sent}")

    def _end(self, future: Any) -> WorkerEnd:
        """How a task's worker ended; one whose nodes are lost again and again has died."""
        from distributed import KilledWorker

        try:
            return ended(future.result())
        except CgcheckError:
            raise
        except KilledWorker:
            return WorkerEnd(End.DIED, (), None, None, 0.0)
        except ImportError as error:
            raise UserError(f"a node of the cluster cannot import cgcheck: {error}") from None
        except (CancelledError, OSError) as error:
            raise UserError(f"the cluster at {self.address} is gone: {error}") from None
