"""Backward passes that keep their own source lines.

While JAX runs a `bwd` it gives its operations the line of the forward call. Blame
wants the line in `bwd` itself.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax

from gradcheck_cli.frameworks.jax.private_api import source_info_util


@contextmanager
def own_lines(rule: Any) -> Iterator[None]:
    """While active, operations of this rule's backward pass know where they were written."""
    bwd: Callable[..., Any] | None = getattr(rule, "bwd", None)
    if not isinstance(rule, jax.custom_vjp) or bwd is None:
        yield
        return

    @functools.wraps(bwd)
    def placed(*args: Any, **kwargs: Any) -> Any:
        context = source_info_util._source_info_context
        before = context.context
        context.context = source_info_util.SourceInfo(None, before.name_stack)
        try:
            return bwd(*args, **kwargs)
        finally:
            context.context = before

    rule.bwd = placed
    try:
        yield
    finally:
        rule.bwd = bwd
