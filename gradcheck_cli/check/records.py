"""Records of what is made while a file is imported, by the frameworks that it may use."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gradcheck_cli.frameworks.load import load
from gradcheck_cli.subject.protocol import Framework
from gradcheck_cli.subject.results import Found
from gradcheck_cli.subject.user_code import UserCodeError, calling_user_code


@dataclass(frozen=True, slots=True)
class Records:
    """What each framework has recorded, and records until the end."""

    stack: contextlib.ExitStack
    by_framework: dict[str, list[Found]] = field(default_factory=dict)

    def of(self, framework: Framework) -> list[Found]:
        """One framework's; if it is asked for only now, it records what is still to be made."""
        if framework.name not in self.by_framework:
            recorded = self.stack.enter_context(framework.recording())
            self.by_framework[framework.name] = recorded
        return self.by_framework[framework.name]


@contextlib.contextmanager
def recording(names: Iterable[str]) -> Iterator[Records]:
    """Let these frameworks record; one that is broken is missed when the file imports it."""
    with contextlib.ExitStack() as stack:
        records = Records(stack)
        for name in sorted(names):
            with contextlib.suppress(UserCodeError):
                with calling_user_code():
                    framework = load(name)
                records.of(framework)
        yield records
