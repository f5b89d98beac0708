"""Small changes to the text of a rule: which are tried, in which order, and what they leave alone."""

from __future__ import annotations

import ast

import pytest

from gradcheck_cli.judge.repair.divisors import Divisor, missing
from gradcheck_cli.judge.repair.edits import Edit
from gradcheck_cli.judge.source.rule_text import Function
from tests.judge.by_text import every_edit


def parsed(source: str) -> Function:
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    return tree


def backward(expression: str) -> Function:
    return parsed(f"def backward(x, ct):\n    return {expression}")


def changes(function: Function) -> list[tuple[str, str]]:
    return [(edit.old, edit.new) for edit in every_edit(function)]


@pytest.mark.parametrize(
    ("wrong", "old", "new"),
    [
        ("-ct", "-ct", "ct"),
        ("ct", "ct", "-ct"),
        ("ct + x", "ct + x", "ct - x"),
        ("ct / x", "ct / x", "ct * x"),
        ("ct - x", "ct - x", "x - ct"),
        ("ct - x", "ct - x", "ct - 2 * x"),
        ("ct @ x", "ct @ x", "ct @ x.T"),
        ("ct @ x.T", "x.T", "x"),
        ("ct * (x > 1)", "x > 1", "x < 1"),
        ("x * jnp.sum(ct, -1)", "jnp.sum(ct, -1)", "jnp.sum(ct * x, -1)"),
        ("x * ct.sum(-1)", "ct.sum(-1)", "(ct * x).sum(-1)"),
        ("ct[0]", "ct[0]", "ct"),
        ("ct * 2", "2", "3"),
        ("ct * x ** 2", "2", "1"),
        ("ct * sin(x)", "sin(x)", "x"),
        ("ct * jnp.sin(x)", "jnp.sin(x)", "jnp.cos(x)"),
        ("ct.sum()", "ct.sum()", "ct.mean()"),
        ("ct", "ct", "ct / x"),
        (
            "jnp.sum(ct * x, axis=-1)",
            "jnp.sum(ct * x, axis=-1)",
            "jnp.sum(ct * x, axis=-1, keepdims=True)",
        ),
        ("torch.einsum(s, ct, x)", "torch.einsum(s, ct, x)", "torch.einsum(s, ct, x.flip(-1))"),
        ("jnp.convolve(ct, x)", "jnp.convolve(ct, x)", "jnp.convolve(ct, x[..., ::-1])"),
        ("ct.mean(-1)", "ct.mean(-1)", "ct.mean(-1, keepdims=True)"),
        ("jnp.mean(ct * x)", "jnp.mean(ct * x)", "jnp.mean(ct * x, axis=0)"),
        ("jax.numpy.sum(ct)", "jax.numpy.sum(ct)", "jax.numpy.sum(ct, axis=0)"),
        ("tf.math.reduce_sum(ct)", "tf.math.reduce_sum(ct)", "tf.math.reduce_sum(ct, axis=0)"),
        ("ct.sum()", "ct.sum()", "ct.sum(axis=-1)"),
        ("torch.mean(ct)", "torch.mean(ct)", "torch.mean(ct, dim=-1, keepdim=True)"),
        ("torch.sum(ct, 0)", "torch.sum(ct, 0)", "torch.sum(ct, 0, keepdim=True)"),
        ("lax.cumsum(ct)", "lax.cumsum(ct)", "lax.cumsum(ct, reverse=True)"),
        ("jnp.solve(ct, lower=True)", "jnp.solve(ct, lower=True)", "jnp.solve(ct, lower=False)"),
        ("jnp.linalg.solve(x, ct)", "jnp.linalg.solve(x, ct)", "jnp.linalg.solve(x.T, ct)"),
        ("jnp.exp(ct)", "jnp.exp(ct)", "jnp.sum(jnp.exp(ct), axis=0)"),
        ("jnp.exp(ct) / x", "x", "jnp.sqrt(x)"),
        ("jnp.where(x > 0, ct, 0)", "jnp.where(x > 0, ct, 0)", "jnp.where(x > 0, 0, ct)"),
        ("ct * x", "x", "ct"),
        ("ct", "ct", "ct * x"),
        ("x", "x", "ct * x"),
        ("x", "x", "0.5 * x"),
        ("x", "x", "x + ct"),
        ("x", "x", "x + ct[1]"),
        ("(ct, None)", "None", "x * ct"),
        ("(ct * x, ct)", "(ct * x, ct)", "(ct, ct * x)"),
    ],
)
def test_a_fault_that_authors_make_is_undone(wrong: str, old: str, new: str) -> None:
    assert (old, new) in changes(backward(wrong))


@pytest.mark.parametrize("new", ["ct * jnp.exp(x)", "ct + 3", "x * x * ct"])
def test_what_is_no_small_change_is_not_tried(new: str) -> None:
    tried = [ast.unparse(edit.tree) for edit in every_edit(backward("ct * jnp.sin(x)"))]
    assert f"return {new}" not in " ".join(tried)


def test_only_a_gradient_that_is_none_becomes_a_product() -> None:
    assert ("None", "x * ct") in changes(backward("(ct, None)"))
    assert ("2", "x * ct") not in changes(backward("(ct, 2)"))


def test_changes_inside_come_before_changes_of_the_whole() -> None:
    tried = [new for _, new in changes(backward("ct + x"))]
    assert tried.index("ct - x") < tried.index("-(ct + x)") < tried.index("ct + x * ct")


def test_an_edit_has_its_line() -> None:
    tree = parsed("def backward(x, ct):\n    y = 2 * x\n    return ct * y")
    assert {edit.line for edit in every_edit(tree) if edit.old == "2"} == {2}


def test_how_often_something_runs_is_left_alone() -> None:
    tree = parsed("def f(n, ct):\n    while n > 2:\n        n = n - 1\n    return ct * n")
    assert {edit.old for edit in every_edit(tree) if edit.line == 2} == set()
    assert {edit.old for edit in every_edit(tree) if edit.line == 3} == {"n - 1", "n", "1"}


IN_A_LOOP = """
def backward(x, ct):
    total, kept = 0, x
    for part in ct:
        {}
    return total
"""


@pytest.mark.parametrize(
    ("line", "new"),
    [
        ("total = part * x", "total + part * x"),
        ("kept[part] = x", "kept[part] + x"),
        ("total = total - part", None),  # it is read
        ("fresh = part * x", None),  # it has no value before
    ],
)
def test_what_a_loop_writes_over_is_added_up(line: str, new: str | None) -> None:
    function = parsed(IN_A_LOOP.format(line).strip())
    first = changes(function)[0][1]
    assert (first == new) is (new is not None)


def test_of_a_function_that_returns_its_rule_only_the_rule_is_changed() -> None:
    tree = parsed("def f(x):\n    y = x + 1\n    return y, lambda ct: ct - y")
    assert {edit.line for edit in every_edit(tree)} == {3}


def test_the_tree_is_the_whole_function_with_the_one_change() -> None:
    function = backward("ct + x")
    edit = next(e for e in every_edit(function) if e.new == "ct - x")
    assert ast.unparse(edit.tree) == "def backward(x, ct):\n    return ct - x"


def test_the_function_stays_as_it_is_and_is_not_copied() -> None:
    """A rule of n nodes has about n changes: a copy of all of it for each would take n² steps."""
    function = parsed("def backward(x, ct):\n    y = 2 * x\n    return ct + y")
    before = ast.dump(function)
    every: list[Edit] = list(every_edit(function))
    assert ast.dump(function) == before
    changed = next(e for e in every if e.new == "ct - y").tree
    assert isinstance(changed, ast.FunctionDef)
    assert isinstance(function, ast.FunctionDef)
    assert changed.args is function.args
    assert changed.body[0] is function.body[0]
    assert changed.body[1] is not function.body[1]


def test_the_divisor_of_a_mean_that_was_forgotten() -> None:
    every = changes(backward("ct * jnp.sign(x)"))
    for size in ("x.shape[0]", "x.shape[-1]", "x.size", "x.numel()"):
        assert ("ct * jnp.sign(x)", f"ct * jnp.sign(x) / {size}") in every
    in_graphs = changes(backward("ct * tf.sign(x)"))
    divided = "ct * tf.sign(x) / tf.cast(tf.shape(x)[0], x.dtype)"
    assert ("ct * tf.sign(x)", divided) in in_graphs


def test_a_sign_that_was_forgotten() -> None:
    signed = changes(backward("ct * jnp.where(jnp.abs(x) < 1, x, 1)"))
    assert ("ct", "ct * jnp.sign(x)") in signed
    assert not any("sign(" in new for _, new in changes(backward("ct * x")))


def test_of_a_grad_function_the_arguments_around_it_are_names() -> None:
    tree = parsed(
        "def f(x):\n    s = tf.sigmoid(x)\n    def grad(dy):\n        return dy\n    return s, grad"
    )
    every = changes(tree)
    assert ("dy", "dy * s") in every
    assert ("dy", "2 * x * dy") in every


@pytest.mark.parametrize(
    ("divisor", "first"),
    [(Divisor.SIZE, "ct * y / y.shape[0]"), (Divisor.ROOT, "jnp.exp(x) / jnp.sqrt(y.shape[-1])")],
)
def test_a_divisor_that_is_known_to_be_missing_comes_first(divisor: Divisor, first: str) -> None:
    tree = parsed("def backward(x, ct):\n    y = jnp.exp(x)\n    return ct * y")
    tried = [edit.new for edit in every_edit(tree, divisor)]
    assert tried[:2] == ["ct * y * x", "ct * y / x"]  # what has a name already
    assert next(new for new in tried if "shape" in new) == first


def test_which_divisor_is_missing() -> None:
    assert missing([4.0, 4.0001], [3, 4]) is Divisor.SIZE
    assert missing([3**0.5], [3, 4]) is Divisor.ROOT
    assert missing([4.0, 3.0], [3, 4]) is None
    assert missing([], [3]) is None


def test_a_factor_that_may_be_the_size_by_chance_is_dropped_before_anything_is_divided() -> None:
    tree = parsed("def backward(x, ct):\n    return 3 * ct * x**2")
    assert next(iter(every_edit(tree, Divisor.SIZE))).new == "ct"


@pytest.mark.parametrize(
    ("store", "added"),
    [
        ("dx[ids] = ct", "dx.index_put_((ids,), ct, accumulate=True)"),
        ("dx[ids] += ct", "dx.index_put_((ids,), ct, accumulate=True)"),
        ("dx[i, j] = ct", "dx.index_put_((i, j), ct, accumulate=True)"),
        ("dx[:, ids] = ct", "dx.index_add_(1, ids, ct)"),
        ("dx[..., ids] = ct", "dx.index_add_(-1, ids, ct)"),
    ],
)
def test_what_is_stored_at_places_that_repeat_is_added_up(store: str, added: str) -> None:
    function = parsed(f"def backward(ctx, ct):\n    {store}\n    return dx")
    assert (store, added) in changes(function)


@pytest.mark.parametrize("store", ["dx[0] = ct", "dx[1:] = ct", "dx[ids] -= ct"])
def test_what_is_stored_at_one_place_is_not_added_up(store: str) -> None:
    function = parsed(f"def backward(ctx, ct):\n    {store}\n    return dx")
    assert not any("index_" in new for _, new in changes(function))
