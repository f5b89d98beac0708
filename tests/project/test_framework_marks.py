"""The table of frameworks agrees with itself, and with what is installed for tests."""

from __future__ import annotations

import importlib.util

import pytest

from gradcheck_cli.contract.report import Tool
from gradcheck_cli.project.framework_marks import (
    ASKED,
    BACKENDS,
    DEFAULT,
    MARKS,
    NAMES,
    PACKAGES,
    WATCHED,
    Backend,
)


def test_each_framework_has_one_row_and_a_field_in_the_report() -> None:
    assert len(NAMES) == len(MARKS)
    assert set(Tool.__struct_fields__) >= NAMES


def test_what_a_framework_runs_on_is_a_framework_that_runs_on_nothing() -> None:
    for backends in BACKENDS.values():
        assert set(backends) == set(Backend) <= NAMES - set(BACKENDS)


def test_an_object_is_the_default_s_if_no_other_framework_knows_it() -> None:
    assert ASKED[-1] == DEFAULT
    assert set(ASKED) == set(WATCHED) == NAMES - set(BACKENDS)


@pytest.mark.needs("torch", "tensorflow", "keras", "equinox", "flax")
def test_a_framework_s_marks_are_looked_for_under_modules_that_can_be_imported() -> None:
    roots = {root for marks in MARKS for root in marks.roots}
    assert all(importlib.util.find_spec(name) for name in {*roots, *PACKAGES})
    assert all(marks.callables or marks.bases for marks in MARKS)
    assert all(marks.framework in marks.roots for marks in MARKS)
