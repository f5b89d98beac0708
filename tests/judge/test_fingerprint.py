"""What makes two findings one: neither numbers nor lines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gradcheck_cli.judge.fingerprint import Site, fingerprint

SITE = Site("model.py", 3, 5, 9, "loss", "model.py", "/home/me", 4)
IDENTITY = fingerprint("gradient-mismatch", SITE, "formula x", 0)


def test_the_identity_is_the_one_of_earlier_versions() -> None:
    """Histories and baselines of users hold it."""
    assert IDENTITY == "ca108673aecc1700"


@pytest.mark.parametrize(
    "site",
    [
        replace(SITE, line=30, header_end=40),
        replace(SITE, column=1, end_column=2),
        replace(SITE, root="/elsewhere", target="/elsewhere/model.py"),
    ],
)
def test_it_is_the_same_at_another_line_and_in_another_folder(site: Site) -> None:
    assert fingerprint("gradient-mismatch", site, "formula x", 0) == IDENTITY


@pytest.mark.parametrize(
    "other",
    [
        fingerprint("non-finite-gradient", SITE, "formula x", 0),
        fingerprint("gradient-mismatch", replace(SITE, path="other.py"), "formula x", 0),
        fingerprint("gradient-mismatch", replace(SITE, qualname="other"), "formula x", 0),
        fingerprint("gradient-mismatch", SITE, "formula y", 0),
        fingerprint("gradient-mismatch", SITE, "formula x", 1),
    ],
)
def test_another_rule_gradient_ground_or_argument_is_another_finding(other: str) -> None:
    assert other != IDENTITY
