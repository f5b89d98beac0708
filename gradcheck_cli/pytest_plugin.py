"""`pytest --cgcheck`: checks every custom gradient that the tests call, as they call it.

It runs in the process of the tests, after them. Nothing of ours is imported without the option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradcheck_cli.words import Checked

_KEY = "cgcheck"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cgcheck", "custom gradients")
    group.addoption("--cgcheck", action="store_true", help="check the custom gradients that the tests call")  # fmt: skip
    group.addoption("--cgcheck-points", type=int, default=128, help="points for each signature")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cgcheck"):
        config.pluginmanager.register(_Plugin(config), "cgcheck-session")


class _Plugin:
    """One process of the test run: a worker of xdist records and checks, its controller tells."""

    def __init__(self, config: pytest.Config) -> None:
        from gradcheck_cli.recorder import Recorder

        self.config = config
        self.recorder = Recorder()
        self.checked: list[Checked] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.recorder.watch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        import msgspec

        from gradcheck_cli.unit import judged

        points = int(self.config.getoption("--cgcheck-points"))
        for called in self.recorder.stop():
            signatures = list(called.signatures.values())
            self.checked.append(judged(called.gradient, called.framework, signatures, points))
        output: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            output[_KEY] = msgspec.json.encode(self.checked).decode()
        elif self._failed() and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # fmt: skip
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """What a worker of xdist found; the same gradient is told once."""
        import msgspec

        from gradcheck_cli.words import Checked

        found = getattr(node, "workeroutput", {}).get(_KEY, "[]")
        known = {c.gradient.id for c in self.checked}
        for checked in msgspec.json.decode(found, type=list[Checked]):
            if checked.gradient.id not in known:
                self.checked.append(checked)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        from gradcheck_cli.unit import told

        terminalreporter.section("custom gradients (cgcheck)")
        if not self.checked:
            terminalreporter.line("the tests call none of this project's own")
            return
        terminalreporter.write(told(self.checked, terminalreporter._tw.fullwidth - 1))

    def _failed(self) -> bool:
        return any(f.severity.value == "error" for c in self.checked for f in c.findings)
