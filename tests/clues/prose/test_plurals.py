"""Words for several parameters at once."""

from __future__ import annotations

from gradcheck_cli.clues.docstrings import read_text
from gradcheck_cli.clues.documentation import Text
from gradcheck_cli.clues.prose.plurals import spelled_out

NAMES = ("pos", "neg", "pos_mask", "neg_mask")


def test_the_plural_of_a_last_word_is_each_of_them() -> None:
    said = spelled_out("pos [B, P], neg [B, N], masks bool of the same shapes, w [B].", NAMES)
    assert said == (
        "pos [B, P], neg [B, N], pos_mask:  bool of the same shape as pos; "
        "neg_mask:  bool of the same shape as neg, w [B]."
    )


def test_one_of_them_is_no_plural() -> None:
    assert spelled_out("masks bool", ("pos", "pos_mask")) == "masks bool"
    assert spelled_out("masks bool", ("masks", "a_mask", "b_mask")) == "masks bool"


def test_each_has_the_shape_of_its_own_array() -> None:
    text = Text("here", "pos [B, P], neg [B, N], masks bool of the same shapes.", near=True)
    specs = {name: clue.spec for name, clue in read_text(text, NAMES).items()}
    assert (specs["pos_mask"], specs["neg_mask"]) == ("bool[B P]", "bool[B N]")


def test_what_each_is_told_of_is_left_as_it_is() -> None:
    told = "k_pages: key pages [pages, page_size], v_pages: value pages [pages, page_size]."
    assert spelled_out(told, ("k_pages", "v_pages")) == told


def test_a_star_stands_for_all_that_begin_so() -> None:
    names = ("x", "sign_x", "sign_y")
    assert spelled_out("sign_*: (d,) of +1 or -1", names) == "sign_x, sign_y: (d,) of +1 or -1"
    assert spelled_out("x_*: (d,), *args", names) == "x_*: (d,), *args"
    text = Text("here", "``sign_*``: (d,) of +1 or -1", near=True)
    assert {name: clue.domain for name, clue in read_text(text, names).items()} == {
        "sign_x": "in signs", "sign_y": "in signs",
    }  # fmt: skip


def test_the_plural_of_a_name_at_the_head_of_a_sentence_is_each_of_them() -> None:
    text = Text("here", "Grading. Frames are (N, 3), and frames are (never here).", near=True)
    assert read_text(text, ("frame",))["frame"].spec == "f32[N 3]"
    assert spelled_out("Reframes are (N, 3).", ("frame",)) == "Reframes are (N, 3)."


def test_shapes_of_several_of_each_are_those_of_one() -> None:
    names = ("query", "key", "value", "bias")
    said = "takes queries [B, H, T, D], keys and values [B, G, T, D] and a bias table [H, R]"
    specs = {
        name: clue.spec for name, clue in read_text(Text("here", said, near=True), names).items()
    }
    assert specs == {
        "query": "f32[B H T D]", "key": "f32[B G T D]", "value": "f32[B G T D]", "bias": "f32[H R]"
    }  # fmt: skip
    assert spelled_out("keys (see below)", names) == "keys (see below)"
    assert spelled_out("rows of b, as (batch, dim)", ("a", "b")) == "rows of b, as (batch, dim)"
    assert spelled_out("x is (N, D)", ("x", "i")) == "x is (N, D)"


def test_the_others_are_those_of_which_no_shape_is_told() -> None:
    names = ("drive", "x0", "v0", "dt")
    told = "In steps of dt. drive: (steps, reeds); the other two: (reeds,). Gives (steps, reeds)."
    text = Text("here", told, near=True)
    assert {name: clue.spec for name, clue in read_text(text, names).items()} == {
        "drive": "f32[steps reeds]", "x0": "f32[reeds]", "v0": "f32[reeds]",
    }  # fmt: skip
    for left in ("drive along the other (steps) axis", "drive; the others: (see below)", "the other five: (reeds,)"):  # fmt: skip
        assert spelled_out(left, names) == left
