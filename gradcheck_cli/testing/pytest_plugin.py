"""`pytest --cgcheck`: checks every custom gradient that the tests call, as they call it.

It runs in the process of the tests, after them. Nothing of ours is imported without the option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradcheck_cli.testing.session import LoadedSession

_KEY = "cgcheck"
# Of one gradient that are checked: of each choice of its options, and in all.
_OF_OPTIONS, _MOST_SIGNATURES = 2, 8


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cgcheck", "custom gradients")
    group.addoption("--cgcheck", action="store_true", help="check the custom gradients that the tests call")  # fmt: skip
    group.addoption("--cgcheck-points", type=int, help="points for each signature")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--cgcheck"):
        config.pluginmanager.register(_Plugin(config), "cgcheck-session")


class _Plugin:
    """One process of the test run: a worker of xdist records and checks, its controller reports."""

    def __init__(self, config: pytest.Config) -> None:
        from gradcheck_cli.contract.errors import UserError
        from gradcheck_cli.project import recorded_calls
        from gradcheck_cli.project.settings import load, with_flags
        from gradcheck_cli.project.suppressions import Filter
        from gradcheck_cli.record.watch import Recorder

        self.config = config
        self.recorder = Recorder(_MOST_SIGNATURES, of_options=_OF_OPTIONS)
        self.loaded: LoadedSession | None = None
        try:
            settings, self.root = load(config.rootpath)
            flags = {"points": config.getoption("--cgcheck-points")}
            self.settings = with_flags(settings, flags, "--cgcheck")
            Filter.of(settings.select, settings.ignore)
            recorded_calls.load(self.root / settings.recordings)
        except UserError as error:
            raise pytest.UsageError(f"cgcheck: {error}") from None

    @property
    def session(self) -> LoadedSession:
        """What is checked; the engine is loaded only if there is something."""
        from gradcheck_cli.testing.session import LoadedSession

        self.loaded = self.loaded or LoadedSession(self.settings, self.root)
        return self.loaded

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.recorder.watch()

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        import msgspec

        for called in self.recorder.stop():
            signatures = list(called.signatures.values())
            self.session.check(called.gradient, called.framework, signatures)
        output: dict[str, Any] | None = getattr(self.config, "workeroutput", None)
        if output is not None:
            events = self.loaded.events if self.loaded is not None else []
            output[_KEY] = msgspec.json.encode(events).decode()
        elif self._failed() and exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):  # fmt: skip
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        """Take what a worker of xdist found; one gradient that several of them met is told once."""
        import msgspec

        from gradcheck_cli.contract.worker import Checked, Event

        text = getattr(node, "workeroutput", {}).get(_KEY, "[]")
        events = msgspec.json.decode(text, type=list[tuple[str, Event]])
        known = {c.gradient.id for c in self.session.gradients()} if events else set()
        for display, event in events:
            if not (isinstance(event, Checked) and event.gradient.id in known):
                self.session.add(display, event)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        terminalreporter.section("custom gradients (cgcheck)")
        if self.loaded is None:
            terminalreporter.line("the tests call none of this project's own")
            return
        terminalreporter.write(self.loaded.page(terminalreporter._tw.fullwidth - 1))

    def _failed(self) -> bool:
        return self.loaded is not None and self.loaded.report().summary.exit_code != 0
