"""Which lines of a module belong to a gradient."""

from __future__ import annotations

import ast

from gradcheck_cli.project.source_parts import Parts

SOURCE = """\
@jax.custom_vjp
def f(x):
    return helper(x)

def f_fwd(x):
    return f(x), shared(x)

def f_bwd(kept, ct):
    return (ct * kept,)

f.defvjp(f_fwd, f_bwd)

def helper(x):
    return deeper(x)

def deeper(x):
    return x

def shared(x):
    return x

def other(x):
    return shared(x)

@jax.custom_jvp
def g(x):
    return x

@g.defjvp
def g_jvp(primals, tangents):
    return primals, tangents

made = jax.custom_vjp(other)

class Square(Function):
    @staticmethod
    def forward(ctx, x):
        return x * x

def squared_root(x):
    return Square.apply(jnp.sqrt(only_here(x)))

def only_here(x):
    return x
"""


def lines(of: int) -> set[int]:
    return {line for part in Parts(ast.parse(SOURCE)).of(of) for line in part}


def test_a_rule_belongs_to_the_function_that_it_is_attached_to() -> None:
    assert lines(2) >= {1, 2, 3, 5, 6, 8, 9, 11}


def test_helpers_that_nothing_else_names_belong_to_it_too() -> None:
    assert lines(2) >= {13, 14, 16, 17}
    assert lines(2).isdisjoint({19, 20, 22, 23})


def test_a_rule_may_be_attached_by_a_decorator() -> None:
    assert lines(26) == {25, 26, 27, 29, 30, 31}


def test_what_is_bound_to_a_name_is_what_it_is_made_of() -> None:
    assert lines(33) == {22, 23, 33}


def test_a_class_is_all_of_its_body_and_nothing_that_calls_it() -> None:
    assert lines(35) == {35, 36, 37, 38}


def test_the_innermost_definition_of_a_line() -> None:
    parts = Parts(ast.parse(SOURCE))
    assert (parts.innermost(38), parts.innermost(35)) == (range(36, 39), range(35, 39))
    assert parts.innermost(33) == range(0)
