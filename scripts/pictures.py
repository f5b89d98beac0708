"""Draws the pictures of the site into docs/pictures/: `python scripts/pictures.py`.

Those of correct bits are cgcheck's own; that of balls shows one number at several precisions.
"""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

from flint import arb, ctx

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "pictures"
_EXAMPLE = "fixtures/seeds/custom_gradient.py"
_BITS = (32, 64, 128, 256)
_AT = "1e-8"
_WIDTH, _ROW, _LEFT, _HEAD = 720, 34, 100, 40
_SPAN = 8.0  # widths of a row: powers of ten around the truth on either side
_STYLE = """\
svg { --ink: #1f2328; --faint: #d0d7de; --open: #cf222e; --sure: #0969da; }
@media (prefers-color-scheme: dark) {
  svg { --ink: #e6edf3; --faint: #30363d; --open: #f85149; --sure: #58a6ff; }
}
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
svg .title { font-weight: 600; } svg .faint { stroke: var(--faint); }
svg .open { fill: var(--open); opacity: .35; } svg .sure { fill: var(--sure); }"""


def pictures() -> dict[str, str]:
    """Each picture by the name of its file."""
    return {
        "log1pexp.svg": _printed("check", _EXAMPLE),
        "log1pexp-float16.svg": _printed("sweep", f"{_EXAMPLE}:log1pexp", "--dtype", "float16"),
        "balls.svg": balls(),
    }


def _printed(*arguments: str) -> str:
    command = [sys.executable, "-m", "gradcheck_cli", *arguments, "--output-format", "svg"]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    if not done.stdout.startswith("<svg"):
        raise SystemExit(f"{' '.join(arguments)}: no picture was drawn\n{done.stderr}")
    return done.stdout


def balls() -> str:
    """The ball of (1 - cos x) / x² at 1e-8, by the bits that it is computed with."""
    height = _HEAD + _ROW * len(_BITS) + 24
    middle = _LEFT + (_WIDTH - _LEFT) / 2
    rows = [_ball(number, bits, middle) for number, bits in enumerate(_BITS)]
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}">',
        f"<style>{_STYLE}</style>",
        f'<text class="title" x="12" y="18">(1 − cos x) / x² at x = {_AT}: the ball at each precision, on a scale of powers of ten</text>',
        f'<line class="faint" x1="{middle:g}" y1="{_HEAD - 8}" x2="{middle:g}" y2="{height - 24}"/>',
        *rows,
        f'<text x="{middle:g}" y="{height - 8}" text-anchor="middle">the truth, 0.5</text>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _ball(number: int, bits: int, middle: float) -> str:
    """One row: as wide as the radius is long, each power of ten as much as the next."""
    before, ctx.prec = ctx.prec, bits
    try:
        x = arb(_AT)
        radius = float(((1 - x.cos()) / (x * x)).rad())
    finally:
        ctx.prec = before
    reach = max(math.log10(radius) + _SPAN, 0.0)
    half = max(reach / (_SPAN + 1) * (middle - _LEFT - 12), 2.0)
    top = _HEAD + number * _ROW
    decides = radius < 2.0**-26
    return "\n".join([
        f'<text x="12" y="{top + 15}">{bits} bits</text>',
        f'<rect class="{"sure" if decides else "open"}" x="{middle - half:.1f}" y="{top}" width="{2 * half:.1f}" height="20" rx="10"/>',
        f'<text x="{middle + half + 8:.1f}" y="{top + 15}">± {radius:.2g}: decided</text>'
        if decides
        else f'<text x="{middle:.1f}" y="{top + 15}" text-anchor="middle">± {radius:.2g}: open</text>',
    ])  # fmt: skip


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pictures().items():
        (FOLDER / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
