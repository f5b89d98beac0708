"""`--fix`: suppressions that suppress nothing are taken out of the source."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from gradcheck_cli.rule_names import RuleName
from gradcheck_cli.words import Finding

_NAME = re.compile(r"`ignore\[(?P<name>[^\]]+)\]`")
_COMMENT = re.compile(
    r"(?P<before>\s*)#\s*cgcheck:\s*(?P<verb>ignore(?:-file)?)\s*\[(?P<rules>[^\]]*)\](?P<rest>.*)$"
)


def without_unused(findings: Sequence[Finding], root: Path) -> int:
    """How many names were taken out; a file that changed in the meantime is left alone."""
    wanted: dict[str, dict[int, set[str]]] = defaultdict(lambda: defaultdict(set))
    for finding in findings:
        match = _NAME.search(finding.message)
        if finding.rule == RuleName.UNUSED_IGNORE and match is not None:
            wanted[finding.path][finding.line].add(match["name"])
    return sum(_rewritten(root / path, lines) for path, lines in wanted.items())


def _rewritten(file: Path, unused: dict[int, set[str]]) -> int:
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    count = 0
    for number in sorted(unused, reverse=True):  # from below: a line may go
        line = lines[number - 1]
        match = _COMMENT.search(line.rstrip("\r\n"))
        if match is None:
            continue
        names = [n.strip() for n in match["rules"].split(",")]
        kept = [n for n in names if n not in unused[number]]
        count += len(names) - len(kept)
        end = line[len(line.rstrip("\r\n")) :]
        before = line[: match.start()]
        if kept:
            comment = f"# cgcheck: {match['verb']}[{', '.join(kept)}]{match['rest']}"
            lines[number - 1] = f"{before}{match['before']}{comment}{end}"
        else:
            lines[number - 1 : number] = [before.rstrip() + end] if before.strip() else []
    file.write_text("".join(lines), encoding="utf-8")
    return count
