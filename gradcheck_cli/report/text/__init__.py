"""The report that people read: one verdict line a gradient, then each finding with its evidence."""

from gradcheck_cli.report.text.page import render

__all__ = ["render"]
