"""What a format draws of a gradient: along the argument of each fault of its floats, and along all others."""

from __future__ import annotations

from pathlib import Path

from gradcheck_cli.contract.report import Report
from gradcheck_cli.project.files import resolve
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.run.session import Session

MODEL = '''import jax
import jax.numpy as jnp


@jax.custom_vjp
def grown(balance, rate, kind="plain"):
    """Floats balance and rate; kind "plain" or "steady"."""
    if kind == "steady":
        return balance * jnp.exp(rate)
    return balance * (1 + rate)


def fwd(balance, rate, kind="plain"):
    return grown(balance, rate, kind), (balance, rate, kind)


def bwd(kept, g):
    balance, rate, kind = kept
    if kind == "steady":
        e = jnp.exp(rate)
        return g * e, g * balance * e, None
    return g * (1 + rate), g * balance, None


grown.defvjp(fwd, bwd)
'''


def run(folder: Path, text: str, *, plots: bool) -> Report:
    (folder / "model.py").write_text(text)
    session = Session(Settings(), folder, plots=plots)
    return session.run(resolve([str(folder / "model.py")], []), lambda display, event: None).report


def test_a_fault_is_drawn_on_its_own_line_and_every_other_argument_once(tmp_path: Path) -> None:
    report = run(tmp_path, MODEL.replace(', kind="plain"', "").replace('kind == "steady"', "True").replace(", kind", "").replace(", None", ""), plots=True)  # fmt: skip
    (gradient,) = report.gradients
    shown = [plot for plot in gradient.plots if plot.shows]
    assert shown
    told = {report.findings[k].fingerprint: report.findings[k] for k in gradient.findings}
    for plot in shown:
        finding = told[plot.shows[0]]
        assert plot.argument == finding.boundary[0].argument
        ends = [float(end) for b in finding.boundary for end in (b.start, b.stop)]
        assert {float(v) for v in plot.at} >= set(ends)
    assert {plot.argument for plot in gradient.plots} == {"balance", "rate"}


def test_nothing_is_measured_for_a_format_that_does_not_draw(tmp_path: Path) -> None:
    report = run(tmp_path, MODEL, plots=False)
    assert [gradient.plots for gradient in report.gradients] == [[]]
