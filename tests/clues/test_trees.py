"""Trees made of the paths by which a text reads an argument."""

from __future__ import annotations

from gradcheck_cli.clues.trees import arrays_of, fields, steps_of, tree


def of(*paths: str):
    return tree("p", paths, lambda path: path)


def test_nested_dictionaries() -> None:
    assert of("p", "p['a']['w']", "p['a']['b']", "p['c']", "x['d']") == {
        "a": {"b": "p['a']['b']", "w": "p['a']['w']"},
        "c": "p['c']",
    }


def test_places_make_a_tuple() -> None:
    assert of("p[0]", "p[2]['w']") == ("p[0]", "p[1]", {"w": "p[2]['w']"})


def test_what_has_no_parts_is_no_tree() -> None:
    assert of("p", "p.shape", "other['a']") is None
    assert steps_of("p", "p['a'].w") == ()


def test_attributes_are_fields() -> None:
    assert fields("p", ["p.w", "p.b", "p['c']", "pq.d"]) == {"w", "b"}


def test_the_spec_of_a_tree_has_those_of_its_arrays() -> None:
    assert arrays_of("p", "{w: f32[n k], s: (f32[k] > 0, 3)}") == {
        "p['w']": "f32[n k]",
        "p['s'][0]": "f32[k] > 0",
    }
    assert arrays_of("p", "{w: nothing}") == {}
