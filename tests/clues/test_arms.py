"""The arms of choices in a text: where they lie, and what their questions rest on."""

from __future__ import annotations

from pathlib import Path

from gradcheck_cli.clues.arms import Arm, Span, arms, names_behind

TEXT = """
def forward(ctx, x, stride, mask=None):
    ctx.step = stride
    if mask is None:
        y = x
    else:
        y = x * mask
    if stride < 1:
        raise ValueError(stride)
    return y


def backward(ctx, g):
    wide = ctx.step > 1
    if wide:
        g = g[::2]
    return 2 * g if wide else g
"""


def read(tmp_path: Path) -> list[Arm]:
    path = tmp_path / "model.py"
    path.write_text(TEXT, encoding="utf-8")
    return list(arms(str(path)))


def test_each_way_is_an_arm_but_one_that_refuses(tmp_path: Path) -> None:
    found = read(tmp_path)
    assert [(arm.line, arm.words) for arm in found] == [
        (4, "`mask is None` holds"), (4, "`mask is None` does not hold"),
        (15, "`wide` holds"), (15, "`wide` does not hold"),
        (17, "`wide` holds"), (17, "`wide` does not hold"),
    ]  # fmt: skip
    assert [arm.body for arm in found].count(None) == 1  # past the body of `if wide`


def test_a_question_rests_on_what_its_names_are_made_of(tmp_path: Path) -> None:
    wide = next(arm for arm in read(tmp_path) if arm.line == 15)
    assert {"wide", "step", "stride"} <= wide.names
    assert "mask" not in wide.names


def test_past_a_body_leads_a_step_from_the_question_to_what_follows(tmp_path: Path) -> None:
    past = next(arm for arm in read(tmp_path) if arm.body is None)
    question, inside, after = (
        Span((15, 7), (15, 11)),
        Span((16, 8), (16, 17)),
        Span((17, 4), (17, 9)),
    )
    jump = Span((15, 4), (16, 17))  # what follows the question has the span of the whole choice
    assert past.taken(question, after)
    assert past.taken(jump, after)
    assert not past.taken(question, jump)
    assert not past.taken(question, inside)
    assert not past.taken(inside, after)


def test_what_is_no_python_has_none(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text("def f(:", encoding="utf-8")
    assert arms(str(path)) == ()


SHAPES = """
def f(params, x):
    if "bias" in params:
        x = x + params["bias"]
    if params.scale.shape[-1] == 1:
        x = x[0]
    if x.mode:
        return x
    raise ValueError(x)
"""


def test_questions_about_shapes_and_items(tmp_path: Path) -> None:
    path = tmp_path / "shapes.py"
    path.write_text(SHAPES, encoding="utf-8")
    asks = {arm.words: (arm.asks_for_shapes, arm.named) for arm in arms(str(path))}
    assert asks["`'bias' in params` does not hold"] == (True, {"bias", "params"})
    assert asks["`params.scale.shape[-1] == 1` holds"] == (True, {"params", "scale", "shape"})


def test_past_a_choice_before_a_refusal_nobody_goes(tmp_path: Path) -> None:
    path = tmp_path / "refuses.py"
    path.write_text(SHAPES, encoding="utf-8")
    assert "`x.mode` does not hold" not in [arm.words for arm in arms(str(path))]


def test_a_function_rests_on_what_it_calls_in_the_factory_around(tmp_path: Path) -> None:
    path = tmp_path / "factory.py"
    text = """
def build(compounding, period, label):
    def growth(rate):
        return rate * period if compounding == "simple" else rate

    def account(flows):
        return growth(flows)
    return account
"""
    path.write_text(text, encoding="utf-8")
    found = names_behind(str(path), 6)
    assert {"compounding", "period"} <= found
    assert "label" not in found
