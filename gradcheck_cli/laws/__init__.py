"""The laws that every custom gradient must keep, as one literal tuple."""

from __future__ import annotations

from gradcheck_cli.laws.casts import CASTS
from gradcheck_cli.laws.context import CONTEXT
from gradcheck_cli.laws.dtypes import DTYPES
from gradcheck_cli.laws.finite import FINITE
from gradcheck_cli.laws.formula import FORMULA
from gradcheck_cli.laws.law import Failure, Judgement, Law
from gradcheck_cli.laws.linearity import LINEARITY
from gradcheck_cli.laws.precision import PRECISION
from gradcheck_cli.laws.structure import STRUCTURE
from gradcheck_cli.laws.value import VALUE
from gradcheck_cli.laws.worth import WORTH

LAWS: tuple[Law, ...] = (
    STRUCTURE, FORMULA, LINEARITY, VALUE, FINITE, PRECISION, CASTS, CONTEXT, DTYPES,
    WORTH,
)  # fmt: skip

__all__ = ["LAWS", "Failure", "Judgement", "Law"]
