"""Every primitive of JAX has a rule over the reals or a reason; so has every public function."""

from __future__ import annotations

import gc

import jax.experimental.pallas
import jax.lax.linalg
import jax.scipy.linalg
import jax.scipy.signal
import jax.scipy.special
import jax.scipy.stats  # noqa: F401
import pytest
from jax.extend.core import Primitive

from gradcheck_cli.reals.inner_jaxprs import call_param
from gradcheck_cli.reals.rules import RULES
from gradcheck_cli.reals.rules.unreal import NATIVE, REASONS


# It looks at every object that is alive, and some libraries' complain of that.
@pytest.mark.filterwarnings("ignore:.*reduce_op.*:FutureWarning")
def test_every_primitive_has_a_rule_or_a_reason() -> None:
    names = {thing.name for thing in gc.get_objects() if isinstance(thing, Primitive)}
    assert len(names) > 250
    known = RULES.keys() | REASONS.keys() | NATIVE
    assert sorted(name for name in names - known if call_param(name) is None) == []


def test_no_primitive_has_both_a_rule_and_a_reason() -> None:
    assert not RULES.keys() & REASONS.keys()
    assert not RULES.keys() & NATIVE
