"""`cgcheck server`: the linter for editors, on standard input and output."""

from __future__ import annotations


def server() -> None:
    """Speak the language server protocol: findings as you type, rule pages on hover, repairs as quick fixes."""
    from gradcheck_cli.contract.errors import UsageError

    try:
        from gradcheck_cli.editor.server import server as made
    except ModuleNotFoundError as error:
        raise UsageError(f"{error.name} is not installed: pip install 'cgcheck[editor]'") from None
    made().start_io()
