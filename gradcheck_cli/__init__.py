"""cgcheck: is your custom gradient right, where does it break, and what to write instead.

pytest is not to rewrite its assertions (PYTEST_DONT_REWRITE): it would warn that a recorded process has
imported it already, and some suites take every warning for an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gradcheck_cli.contract.version import __version__

if TYPE_CHECKING:
    from gradcheck_cli.testing.check_gradient import check_gradient

__all__ = ["__version__", "check_gradient"]


def __getattr__(name: str) -> Any:
    """The engine is imported only by those who ask for it."""
    if name == "check_gradient":
        from gradcheck_cli.testing.check_gradient import check_gradient

        return check_gradient
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
