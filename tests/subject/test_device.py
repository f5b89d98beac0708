"""What is measured on a GPU, and what is seen to before."""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from gradcheck_cli.subject.device import measured, measures_on_gpu, measuring, seen_on_the_cpu


class Rule:
    """Says of each call whether it was made on the GPU."""

    def __init__(self) -> None:
        self.calls: list[bool] = []

    def placed(self) -> AbstractContextManager[None]:
        return measuring()

    def call(self, *, raises: bool = False) -> str:
        self.calls.append(measures_on_gpu())
        if raises:
            raise IndexError("out of its bounds")
        return "its numbers"

    @measured
    def run(self, *, raises: bool = False) -> str:
        return seen_on_the_cpu(self.call, raises=raises)


@pytest.mark.parametrize(("device", "calls"), [("cpu", [False]), ("gpu", [False, True])])
def test_a_call_is_seen_to_run_before_it_runs_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, device: str, calls: list[bool]
) -> None:
    monkeypatch.setenv("CGCHECK_DEVICE", device)
    rule = Rule()
    assert rule.run() == "its numbers"
    assert rule.calls == calls
    assert not measures_on_gpu()


def test_what_raises_never_reaches_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CGCHECK_DEVICE", "gpu")
    rule = Rule()
    with pytest.raises(IndexError):
        rule.run(raises=True)
    assert rule.calls == [False]
