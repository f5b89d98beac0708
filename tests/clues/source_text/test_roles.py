"""Texts of rules."""

from __future__ import annotations

from gradcheck_cli.clues.body import clues
from gradcheck_cli.inputs.clue import ANOTHER, Kind
from tests.clues.source_text.libraries import read
from tests.infer.fitted import parameters_of


def product(x, w):
    return x @ w


def product_fwd(x, w):
    return product(x, w), (x, w)


def product_bwd(residuals, g):
    left, right = residuals
    n, k = left.shape
    k, m = right.shape
    return g @ right.T, left.T @ g


def test_residuals_are_what_the_forward_function_kept() -> None:
    found = read(product, product_bwd, product_fwd)
    assert (found["x"].spec, found["w"].spec) == ("f32[n k]", "f32[k m]")


def test_parameters_of_a_forward_function_go_by_their_place() -> None:
    def total(x, axis):
        return x.sum(axis)

    def total_fwd(a, axis):
        b, n = a.shape
        return total(a, axis), a

    assert read(total, total_fwd)["x"].spec == "f32[b n]"


def test_primals_of_a_tangent_rule_are_the_parameters() -> None:
    def product_jvp(primals, tangents):
        a, b = primals
        n, k = a.shape
        c, d = tangents
        return a @ b, c @ b + a @ d

    assert read(product, product_jvp)["x"].spec == "f32[n k]"


def test_value_and_tangent_are_no_gradients_of_two_parameters() -> None:
    def rated(t, kind):
        return t, t

    def rated_jvp(kind, primals, tangents):
        (t,), (dt,) = primals, tangents
        return (t, t), (dt if kind == "same" else -dt, dt)

    found = read(rated, rated_jvp)
    assert found["kind"].values == ("same", ANOTHER)
    assert not any("[" in path for path in found)


def test_a_backward_function_may_call_what_was_kept_primals() -> None:
    def picked(x, ids):
        return x[ids]

    def picked_bwd(primals, g):
        x, ids = primals
        return x * g, None

    assert read(picked, picked_bwd)["ids"].declined


def test_a_rule_that_stands_inside_of_its_function_answers_like_any_other() -> None:
    def average(x, w, kept):
        total = (w * kept).sum()

        def grad(*args, upstream=None):
            return upstream * w * kept / total, upstream * (x - total), None

        return (x * w * kept).sum() / total, grad

    found = read(average)
    assert [name for name, clue in found.items() if clue.declined] == ["kept"]


def test_a_rule_with_variables_returns_two_tuples() -> None:
    def scaled(x, w):
        def grad(g, variables=None):
            return (g * w, g * x), None

        return x * w, grad

    assert not any(clue.declined for clue in read(scaled).values())


def test_what_is_not_differentiated_has_its_name_in_the_rule() -> None:
    def scaled(mode, x):
        return x

    def scaled_bwd(mode, residuals, g):
        return (g if mode == "same" else -g,)

    assert read(scaled, scaled_bwd)["mode"].values == ("same", ANOTHER)


def test_tensors_saved_on_the_context_are_followed() -> None:
    def forward(ctx, x, weight, dim=-1):
        ctx.save_for_backward(x, weight)
        ctx.axis = dim
        return x

    def backward(ctx, g):
        x, weight = ctx.saved_tensors
        n, d = x.shape
        return g.sum(ctx.axis), weight[:, 0]

    found = read(forward, backward)
    assert (found["x"].spec, found["weight"].least_rank) == ("f32[n d]", 2)
    assert found["dim"].kind.name == "AXIS"


def test_inputs_of_a_context_that_is_set_up_are_followed() -> None:
    def forward(x, weight):
        return x

    def setup_context(ctx, inputs, output):
        x, ctx.weight = inputs
        ctx.save_for_backward(x)

    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        n, d = x.shape
        return g, ctx.weight[:, :, 0]

    found = read(forward, backward, setup_context)
    assert (found["x"].spec, found["weight"].least_rank) == ("f32[n d]", 3)


def test_what_is_compared_with_whole_numbers_and_has_no_gradient_holds_integers() -> None:
    def signed(x, labels, flags):
        return x * (labels == 1) - x * (labels >= 0) + x * (flags == 2)

    def signed_fwd(x, labels, flags):
        return signed(x, labels, flags), (labels,)

    def signed_bwd(residuals, g):
        return g, None, None

    def whole_bwd(residuals, g):
        return g, g, None

    found = read(signed, signed_bwd, signed_fwd)
    assert (found["labels"].kind, found["labels"].domain) == (Kind.INTEGERS, "in -1..2")
    assert found["flags"].domain == ""  # one number tells no range
    assert "labels" not in read(signed, whole_bwd, signed_fwd)


def test_what_the_object_of_a_method_is_made_with_is_a_parameter() -> None:
    def attend(self, x):
        return x.reshape(x.shape[0], self.heads, x.shape[1] // self.heads)

    parameters = [*parameters_of(lambda x, heads: x)]
    found = clues(attend, parameters)
    assert found["heads"].kind is Kind.WHOLE
    assert len(found["heads"].divides) == 1


def test_what_a_factory_was_given_is_a_parameter() -> None:
    def build(clump=None):
        def index(x):
            frames = x.shape[-1]
            size = frames if clump is None else clump
            return x.reshape(frames // size, size)

        return index

    found = clues(build(), [*parameters_of(lambda x, clump=None: x)])
    assert found["clump"].kind is Kind.WHOLE


def affine(parameters, x):
    return x @ parameters[0] + parameters[1]


def apply(parameters, x):
    return affine(parameters, x)


def apply_fwd(parameters, x):
    return affine(parameters, x), (parameters, x)


def test_what_the_rule_takes_apart_holds_several_arrays() -> None:
    def apply_bwd(saved, g):
        (w, b), x = saved
        return (x.T @ g, g.sum(0)), g @ w.T

    found = read(apply, apply_bwd, apply_fwd)
    assert found["parameters"].kind is Kind.TREE
    assert "parameters[1]" in found


def test_what_the_rule_returns_a_tuple_for_holds_as_many_arrays() -> None:
    def apply_bwd(saved, g):
        both = saved[1].T @ g, g.sum(0)
        return both, g

    found = read(apply, apply_bwd, apply_fwd)
    assert found["parameters"].kind is Kind.TREE
    assert "parameters[1]" in found


def test_gradients_of_variables_are_no_arguments() -> None:
    def apply_bwd(upstream, variables=None):
        return [upstream, upstream], [upstream]

    assert "parameters" not in read(apply, apply_bwd)


def test_gradients_are_told_beside_what_is_not_differentiated() -> None:
    def score(table, x, pad_id):
        return table["w"] * x + table["mu"]

    def score_bwd(pad_id, residuals, g):
        return {"w": residuals, "mu": g.sum()}, g

    assert read(score, score_bwd)["table['mu']"].likely_rank == 0
