"""The page of HTML: whole, closed to the network and to hostile names, and open where something is to be read."""

from __future__ import annotations

import base64
import hashlib
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.contract.report import (
    Boundary,
    Edit,
    Evidence,
    NotCovered,
    Plot,
    Report,
    Status,
    Verdict,
)
from gradcheck_cli.contract.sweep_map import Map, Stretch
from gradcheck_cli.project.settings import Settings
from gradcheck_cli.report import render
from gradcheck_cli.report.html.sweep import render_map
from gradcheck_cli.report.look import Look
from gradcheck_cli.run.assemble import assemble
from gradcheck_cli.run.target_file import File
from tests.report.test_formats import HOSTILE, WITNESS
from tests.reports import checked, finding, note

SOURCE = "import jax\n\ndef f(x):\n    return x / (1 + <x>)\n"
VOID = {"meta", "input", "br", "path", "line", "rect", "circle"}
PLOT = Plot(
    argument="x", index=[], dtype="float32", at=[-1.0, 0.0, 1.0], full=24.0, held=[], shows=["a"],
    value=[24.0, 24.0, 24.0], rule=[24.0, None, 0.0], autodiff=[24.0, 24.0, 24.0],
)  # fmt: skip
BOUND = Boundary(argument="x", index=[], start=0.5, stop=1.0)
FAULT = finding(
    "non-finite-gradient", line=4, column=12, end_line=4, end_column=23, witness=WITNESS, boundary=[BOUND],
    fingerprint="a", fix="x", edits=[Edit(line=4, column=12, end_line=4, end_column=23, text="x & 1")],
)  # fmt: skip


class Elements(HTMLParser):
    """Every element with its attributes and text; what is opened must be closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, dict[str, str | None]]] = []
        self.all: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.all.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        self.texts.append((self.open[-1][0] if self.open else "", data))

    def text(self, *tags: str) -> str:
        return "".join(data for tag, data in self.texts if tag in tags)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.all if name == tag]


def parsed(page: str) -> Elements:
    elements = Elements()
    elements.feed(page)
    assert elements.open == []
    return elements


def report(*findings: Any, verdict: Verdict = Verdict.UNSTABLE, **changes: Any) -> Report:
    of_f = checked(*findings, verdict=verdict, plots=[PLOT], **changes)
    whole = NotCovered.whole("g", "its arguments are unknown", "`# cgcheck: x=f32[n]`")
    return assemble([File("a.py", gradients=[of_f], not_covered=[whole])], Settings())


def page(of: Report, root: Path) -> str:
    (root / "a.py").write_text(SOURCE)
    return render("html", of, Look(root))


def test_what_is_found_is_on_the_page(tmp_path: Path) -> None:
    elements = parsed(page(report(FAULT, note()), tmp_path))
    assert elements.text("mark") == "x / (1 + <x>"[:11]
    assert elements.text("del") == "-     return x / (1 + <x>)\n"
    assert elements.text("ins") == "+     return x & 1>)\n"
    assert "its arguments are unknown" in elements.text("p")
    assert elements.text("pre").endswith("# cgcheck: ignore[redundant-rule] -- why\n")


def test_a_gradient_is_open_where_something_is_to_be_read(tmp_path: Path) -> None:
    for verdict, findings, is_open in (
        (Verdict.UNSTABLE, [FAULT], True),
        (Verdict.CORRECT, [note()], False),
    ):
        cards = parsed(page(report(*findings, verdict=verdict), tmp_path)).of("details")
        assert ("open" in cards[0]) is is_open
        assert cards[0]["data-tone"] == verdict


def test_one_cause_is_one_block_that_names_what_else_it_does(tmp_path: Path) -> None:
    value = finding("non-finite-value", line=4, witness=WITNESS, fix=FAULT.fix, fingerprint="b")
    elements = parsed(page(report(FAULT, value), tmp_path))
    assert len(elements.of("article")) == 1
    assert "it is wrong" in elements.text("dd")
    assert "non-finite-value" in elements.text("code")


def test_a_plot_stands_at_its_finding_and_once(tmp_path: Path) -> None:
    text = page(report(FAULT), tmp_path)
    assert text.count("<figure>") == 1
    assert text.index("<article") < text.index("<figure>") < text.index("</article>")
    other = report(note(), verdict=Verdict.CORRECT)
    assert page(other, tmp_path).count("<figure>") == 1


def test_nothing_but_the_scripts_of_the_page_may_run(tmp_path: Path) -> None:
    text = page(report(FAULT), tmp_path)
    elements = parsed(text)
    (policy,) = [m["content"] for m in elements.of("meta") if m.get("http-equiv")]
    assert policy is not None
    assert policy.startswith("default-src 'none'")
    scripts = re.findall(r"<script>(.*?)</script>", text, re.S)
    assert len(scripts) == len(elements.of("script")) > 0
    for script in scripts:
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy
    sources = [a for _, a in elements.all if "src" in a or "onclick" in a]
    assert sources == []


def hostile(root: Path) -> str:
    bad = finding(
        message=HOSTILE, gradient=HOSTILE, help=HOSTILE, reproduce=HOSTILE, witness=WITNESS, expect=HOSTILE,
        end_line=4, end_column=9, line=4,
    )  # fmt: skip
    plot = Plot(**{f: getattr(PLOT, f) for f in PLOT.__struct_fields__} | {"argument": HOSTILE})
    of_f = checked(bad, verdict=Verdict.WRONG, qualname=HOSTILE, plots=[plot])
    (root / "a.py").write_text(f"\n\n\n{HOSTILE}</pre></script>\n", errors="replace")
    left = NotCovered.whole(HOSTILE, HOSTILE, HOSTILE)
    whole = assemble([File("a.py", gradients=[of_f], not_covered=[left])], Settings())
    return render("html", whole, Look(root, verbose=True))


def test_no_name_and_no_source_becomes_markup(tmp_path: Path) -> None:
    text = hostile(tmp_path)
    elements = parsed(text)
    assert "alert(1)" not in "".join(data for tag, data in elements.texts if tag == "script")
    assert "\x1b" not in text
    assert "\x00" not in text
    text.encode()


def test_a_report_of_nothing_is_a_page(tmp_path: Path) -> None:
    elements = parsed(render("html", assemble([File("a.py")], Settings()), Look(tmp_path)))
    assert elements.text("h1") == "cgcheck"
    assert elements.of("figure") == []


def test_every_link_leads_somewhere(tmp_path: Path) -> None:
    lone = checked(verdict=None, status=Status.UNCHECKED, reason="why", qualname="g")
    of_f = checked(FAULT, verdict=Verdict.UNSTABLE)
    both = assemble([File("a.py", gradients=[of_f, lone]), File("b.py")], Settings())
    elements = parsed(render("html", both, Look(tmp_path)))
    places = {attributes.get("id") for _, attributes in elements.all}
    links = [a["href"] for a in elements.of("a")]
    assert links
    assert all(link is not None and link[1:] in places for link in links)
    assert [b["data-tone"] for b in elements.of("button") if "data-tone" in b] == ["unstable"]


def test_without_plotly_the_pictures_are_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = "gradcheck_cli.report.html.document.find_spec"
    monkeypatch.setattr(frame, lambda name: None)
    text = page(report(FAULT), tmp_path)
    assert len(text) < 100_000
    assert parsed(text).of("svg")


def test_the_map_of_a_sweep_is_a_page() -> None:
    stretch = Stretch(
        result=1, kind="nan", first=[1118925336], last=[2139095039], count=1020169704, within=True
    )  # fmt: skip
    sweep = Map(
        gradient="f<b>", path="a.py", line=3, dtype="float32", arguments=["x"], results=["value", "gradient"],
        evidence=Evidence.CERTIFIED, floats=4278190081, complete=True, stretches=[stretch],
        levels=[[24.0, 24.0], [24.0, 0.0]],
    )  # fmt: skip
    elements = parsed(render_map(sweep, 80))
    assert elements.text("title") == "cgcheck sweep f<b>(x)"
    assert len(elements.of("svg")) == 2
    assert "right everywhere" in elements.text("p")
    assert "88.72284 ≤ x ≤ 3.4028235e38" in elements.text("code")


BROWSER = shutil.which("chromium") or shutil.which("google-chrome") or ""


@pytest.mark.slow
@pytest.mark.skipif(not BROWSER, reason="no Chromium here")
def test_a_browser_runs_the_page_and_nothing_of_what_it_is_about(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(hostile(tmp_path).replace("<title>cgcheck", "<title>untouched"))
    command = [
        BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}/profile",
        "--virtual-time-budget=4000", "--enable-logging=stderr", "--dump-dom", f"file://{file}",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert "<title>untouched" in done.stdout
    assert "Uncaught" not in done.stderr
    assert "Refused to" not in done.stderr
