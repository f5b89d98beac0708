"""Too much memory is refused where a call is made up, and only there."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from gradcheck_cli.infer.little_memory import little_memory


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how much is in use")
def test_what_asks_for_far_too_much_is_refused_and_what_follows_is_not() -> None:
    import resource

    before = resource.getrlimit(resource.RLIMIT_AS)
    with little_memory():
        assert np.ones(1000).sum() == 1000
        with pytest.raises(MemoryError):
            np.empty(1 << 40, np.uint8)
    assert resource.getrlimit(resource.RLIMIT_AS) == before
