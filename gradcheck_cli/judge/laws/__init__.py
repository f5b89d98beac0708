"""The laws that every custom gradient must keep, as one literal tuple."""

from __future__ import annotations

from gradcheck_cli.judge.laws.casts import CASTS
from gradcheck_cli.judge.laws.context import CONTEXT
from gradcheck_cli.judge.laws.dtypes import DTYPES
from gradcheck_cli.judge.laws.finite import FINITE
from gradcheck_cli.judge.laws.formula import FORMULA
from gradcheck_cli.judge.laws.law import Judgement, Law
from gradcheck_cli.judge.laws.linearity import LINEARITY
from gradcheck_cli.judge.laws.precision import PRECISION
from gradcheck_cli.judge.laws.structure import STRUCTURE
from gradcheck_cli.judge.laws.value import VALUE
from gradcheck_cli.judge.laws.worth import WORTH
from gradcheck_cli.measure.failure import Failure

LAWS: tuple[Law, ...] = (
    STRUCTURE, FORMULA, LINEARITY, VALUE, FINITE, PRECISION, CASTS, CONTEXT, DTYPES,
    WORTH,
)  # fmt: skip

__all__ = ["LAWS", "Failure", "Judgement", "Law"]
