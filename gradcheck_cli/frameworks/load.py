"""Frameworks by name, each imported only for files that use it."""

from __future__ import annotations

import importlib

from gradcheck_cli.subject.protocol import Framework


def load(name: str) -> Framework:
    """The framework whose folder has this name."""
    module = importlib.import_module(f"gradcheck_cli.frameworks.{name}.framework")
    framework: Framework = module.FRAMEWORK
    return framework
