"""The one place where whatever an exception says is believed: calls of code that is not ours.

That is the user's functions, rules, modules and objects, a framework that traces or compiles
them, and the import of a library in a version that we did not choose. Everywhere else a broad
`except` would make a bug of ours look like a property of the user's code.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from gradcheck_cli.contract.errors import CgcheckError


class UserCodeError(CgcheckError):
    """Code that is not ours raised `error`."""

    def __init__(self, error: Exception | SystemExit) -> None:
        super().__init__(error)
        self.error = error


@contextmanager
def calling_user_code() -> Iterator[None]:
    """While active, what is raised becomes a `UserCodeError`; what cgcheck raises on purpose stays.

    KeyboardInterrupt and the end of our time go through: they say nothing about the code.
    """
    try:
        yield
    except CgcheckError:
        raise
    except (Exception, SystemExit) as error:
        raise UserCodeError(error) from error
