"""`cgcheck cache size|clear`: what is kept between runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


class Action(StrEnum):
    """What to do with the cache."""

    SIZE = "size"
    CLEAR = "clear"


def cache(
    action: Annotated[Action, typer.Argument(metavar="size|clear", help="Tell how large it is, or remove it.", show_default=False)],
) -> None:  # fmt: skip
    """Tell how large the cache of results and compiled code is (size), or remove it (clear).

    It lies in the user's cache folder, or where CGCHECK_CACHE_DIR says.
    """
    from gradcheck_cli.project import cache_folder

    typer.echo(cache_folder.home())
    if action is Action.CLEAR:
        typer.echo(f"removed {_megabytes(cache_folder.clear())}")
        return
    for part, size in cache_folder.sizes().items():
        typer.echo(f"{_megabytes(size):>12}  {part}: {cache_folder.PARTS[part]}")


def _megabytes(size: int) -> str:
    return f"{size / 2**20:.1f} MiB"
