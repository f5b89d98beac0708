"""Elements: what is put into one is told as it is, never read as markup."""

from __future__ import annotations

from gradcheck_cli.report.markup import Markup, element, joined


def test_text_is_escaped_and_markup_is_not() -> None:
    assert element("p", "a < b & c", element("b", "d")) == "<p>a &lt; b &amp; c<b>d</b></p>"


def test_an_attribute_cannot_be_left() -> None:
    assert element("a", "x", href='"><script>') == '<a href="&quot;&gt;&lt;script&gt;">x</a>'


def test_names_of_attributes_are_those_of_html() -> None:
    assert element("input", class_="c", data_of="d", open=True, hidden=False, id=None) == (
        '<input class="c" data-of="d" open/>'
    )


def test_control_characters_and_halves_of_characters_are_told_to_be_there() -> None:
    assert joined("a\x00\udc80\x1b") == "a���"


def test_what_is_joined_is_markup() -> None:
    assert isinstance(joined("<", Markup("<br/>")), Markup)
    assert joined("<", Markup("<br/>")) == "&lt;<br/>"
