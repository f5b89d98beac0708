"""`cgcheck sweep FILE:function`: every float of one argument."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from gradcheck_cli.cli.check import Device
from gradcheck_cli.project.framework_marks import Backend


class Dtype(StrEnum):
    FLOAT32 = "float32"
    FLOAT16 = "float16"
    BFLOAT16 = "bfloat16"
    FLOAT64 = "float64"


_LONG = "cgcheck: every float32 of one argument is four billion numbers: minutes; --max-time SECONDS ends it, another run goes on"


def sweep(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="FILE:function or package.module:function.")],
    dtype: Annotated[Dtype, typer.Option(metavar="DTYPE", help="Whose floats: float32, float16, bfloat16 or float64.")] = Dtype.FLOAT32,
    points: Annotated[int, typer.Option(metavar="N", help="Size of the grid, for several arguments or float64.")] = 4096,
    output_format: Annotated[list[str] | None, typer.Option("--output-format", metavar="FORMAT[:FILE]", help="text, json, html or svg; FORMAT:FILE writes a file. Repeatable.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget what an earlier run has done.")] = False,
    max_time: Annotated[float | None, typer.Option(metavar="SECONDS", help="End after so long; what is done until then is kept.")] = None,
    device: Annotated[Device | None, typer.Option(metavar="cpu|gpu", help="Where the floats run.", show_default="cpu")] = None,
    backend: Annotated[Backend | None, typer.Option(metavar="BACKEND", help="The backend that Keras runs on.", show_default="what its file chooses, else the first installed")] = None,
    jobs: Annotated[int | None, typer.Option("--jobs", "-j", metavar="N", help="Workers at a time; 0 for one on each core.", show_default="cores")] = None,
    cluster: Annotated[str | None, typer.Option(metavar="ADDRESS", help="Let a dask cluster do the work: its scheduler's address or file; local:N for N nodes here.", show_default=False)] = None,
) -> None:  # fmt: skip
    """Look at every float of a function's one argument: where is its gradient wrong, and by how much.

    Float32 has four billion; an interrupted sweep goes on where it was.
    """
    import shutil
    import sys

    import msgspec

    from gradcheck_cli.cli.outputs import map_targets, write_map
    from gradcheck_cli.cli.terminal import bar
    from gradcheck_cli.contract.errors import UsageError
    from gradcheck_cli.project.cache_folder import folder, home
    from gradcheck_cli.project.files import resolve
    from gradcheck_cli.project.settings import load_for, with_flags
    from gradcheck_cli.report.stretches import severity
    from gradcheck_cli.run.exit_code import FINDINGS, INTERRUPTED
    from gradcheck_cli.run.session import Session
    from gradcheck_cli.run.sweep import Sweep

    settings, root = load_for(target)
    settings = msgspec.structs.replace(settings, max_time=max_time)
    flags = {
        "dtype": [dtype.value],
        "jobs": jobs,
        "device": device,
        "backend": backend and [backend],
        "cluster": cluster,
    }
    settings = with_flags(settings, flags, "command line")
    outputs = map_targets(output_format or ["text"])
    named = resolve([target], settings.exclude)
    if len(named) > 1 or points < 1:
        raise UsageError("a sweep is of one function, over at least one point")
    session = Session(settings, root, cache=folder())
    store = home() / "sweeps"
    job = Sweep(session, named[0], points, store)
    if dtype is Dtype.FLOAT32 and not sys.stderr.isatty():
        typer.echo(_LONG, err=True)
    try:
        with bar() as job.tell:
            sweep_map = job.run(fresh=fresh)
    except KeyboardInterrupt:
        typer.echo(f"cgcheck: interrupted; {job.kept}run it again to go on", err=True)
        raise typer.Exit(INTERRUPTED) from None
    finally:
        for f in job.warnings:
            typer.echo(f"cgcheck: warning: {f.path}:{f.line}: {f.message}", err=True)
    width = shutil.get_terminal_size().columns
    write_map(sweep_map, outputs, width)
    bad = any(severity(s) == "error" for s in sweep_map.stretches)
    raise typer.Exit(FINDINGS if bad else 0)
