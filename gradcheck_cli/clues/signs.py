"""Whether a text speaks of negative numbers, or of shares above one: then no name of a quantity says that there are none."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from gradcheck_cli.clues.documentation import texts_about

# What denies them, and what is called so: `never negative`, `the negative log likelihood`.
_NONE = re.compile(
    r"(?:\b(?:not|never|cannot)\s+(?:be\s+)?|\bno \w+ (?:is|are)\s+|\bnon[- ]?)negative\b"
    r"|\bnegative[- ](?:log|binomial|slope|sampl|likelihood)\w*",
    re.IGNORECASE,
)
_SPEAKS = re.compile(
    r"(?<![\w-])(?:negative|signed)\b|\bminus\b|(?:\b(?:below|less than)|<)\s*(?:zero|0)\b(?!\.)|\b(?:either|both|any|opposite) signs?\b"
    r"|\b(?:exceed(?:s|ed)?|above|over|beyond|(?:more|greater|larger) than)\s+(?:one|1|unity|100)\b|%|\bper ?(?:cent|mille|thousand)\b",
    re.IGNORECASE,
)


def speaks_beyond(function: Callable[..., Any]) -> bool:
    """Does a text about the function say that something is negative, or has a sign, or that a share is more than the whole?"""
    return any(_SPEAKS.search(_NONE.sub("", text.text)) for text in texts_about(function))
