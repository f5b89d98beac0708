"""What a node keeps of runs, without a cluster."""

from __future__ import annotations

import math
import time

import pytest

from gradcheck_cli.contract.errors import UserError
from gradcheck_cli.workers import cluster_node
from gradcheck_cli.workers.cluster_node import _Kept, do, forget_idle, leave
from gradcheck_cli.workers.machine import Machine


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, int], _Kept]:
    """Machines of two runs, none of which has begun a server; the first has done nothing for long."""
    idle, busy = (Machine("cpu", 1, 1000) for _ in range(2))
    long_ago = time.monotonic() - 2 * cluster_node._IDLE
    machines = {("first", 1): _Kept(idle, long_ago), ("second", 1): _Kept(busy, math.inf)}
    monkeypatch.setattr(cluster_node, "_MACHINES", machines)
    return machines


def test_what_works_for_nobody_any_more_is_ended(kept: dict[tuple[str, int], _Kept]) -> None:
    forget_idle()
    assert list(kept) == [("second", 1)]


def test_a_run_that_is_over_is_let_go_of(kept: dict[tuple[str, int], _Kept]) -> None:
    leave("second")
    assert list(kept) == [("first", 1)]


def test_another_release_is_refused() -> None:
    with pytest.raises(UserError, match="of the cluster has cgcheck"):
        do("cgcheck 0 on Python 2.7", b"")
