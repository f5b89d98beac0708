"""`cgcheck`: the command group. `cgcheck PATH…` is `cgcheck check PATH…`."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from gradcheck_cli.cli.commands import COMMANDS, PASSED_ON
from gradcheck_cli.cli.help import CommandsInFull, GroupedCommand
from gradcheck_cli.cli.plain_text import spell_what_is_lacking
from gradcheck_cli.contract.version import __version__

_ALIKE = 0.75  # of a command's letters
_OWN_FLAGS = ("--help", "-h", "--version", "--install-completion", "--show-completion")


class _CheckByDefault(CommandsInFull):
    """Inserts `check` before anything that is neither a command nor a flag of the group."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if args and args[0] not in self.commands and args[0] not in _OWN_FLAGS:
            self._refuse_misspelled(args[0])
            args = ["check", *args]
        return super().parse_args(ctx, args)

    def _refuse_misspelled(self, word: str) -> None:
        """A word that is no file and no module, and nearly a command, is taken for that."""
        from gradcheck_cli.contract.errors import UsageError

        close = get_close_matches(word, self.commands, n=1, cutoff=_ALIKE)
        package = word.partition(":")[0].partition(".")[0]
        if close and not Path(word).exists() and not (package and find_spec(package)):
            raise UsageError(
                f"there is no command and no file `{word}`; did you mean `{close[0]}`?"
            )

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """Commands; behind a dash the options of `check` too, which goes without its name."""
        found = super().shell_complete(ctx, incomplete)
        check = self.get_command(ctx, "check") if incomplete.startswith("-") else None
        if check is not None:
            inner = check.make_context("check", [], parent=ctx, resilient_parsing=True)
            known = {item.value for item in found}
            found += [i for i in check.shell_complete(inner, incomplete) if i.value not in known]
        return found


app = typer.Typer(
    cls=_CheckByDefault,
    name="cgcheck",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(value: bool) -> None:
    if value:
        typer.echo(f"cgcheck {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Check custom gradients: are they right, where do they break, and what to write instead.

    cgcheck PATH… is short for cgcheck check PATH….

    \b
    cgcheck model.py              every custom gradient of a file
    cgcheck src/ --changed        of what differs from the last commit
    cgcheck lint src/             unstable expressions; nothing is imported
    cgcheck explain CG201         what a finding means, and how to turn it off

    Exit codes: 0 fine; 1 findings; 2 bad usage, or what was asked for could not be checked;
    3 a bug of cgcheck's; 130 interrupted.
    """


for command in COMMANDS:
    context = {"ignore_unknown_options": command in PASSED_ON}
    app.command(cls=GroupedCommand, context_settings=context)(command)


def main() -> None:
    """Entry point of the `cgcheck` command."""
    from gradcheck_cli.contract.errors import CgcheckError, UserError
    from gradcheck_cli.run.exit_code import COULD_NOT_CHECK, INTERNAL

    spell_what_is_lacking()
    try:
        app()
    except UserError as error:
        print(f"cgcheck: {error}", file=sys.stderr)
        sys.exit(COULD_NOT_CHECK)
    except CgcheckError as error:
        print(f"cgcheck: a bug of ours: {error}", file=sys.stderr)
        sys.exit(INTERNAL)
