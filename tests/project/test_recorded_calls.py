"""The file of recorded calls: read with distrust, written so that a change shows."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gradcheck_cli.contract.errors import SettingsError
from gradcheck_cli.contract.recorded import FloatArg, PlainArg, RecordedCall
from gradcheck_cli.project import recorded_calls


def _floats(**changed: object) -> dict[str, object]:
    return {"is": "float", "dtype": "float32", "shape": [3], **changed}


def _tower(height: int) -> dict[str, object]:
    inner = _floats()
    for _ in range(height):
        inner = {"is": "tree", "kind": "list", "items": [inner]}
    return inner


HOSTILE = {
    "another version": ({"format": 2, "recorded": {}}, "record again"),
    "no recording": ([1, 2], "no recording of ours"),
    "unknown fields": ({"format": 1, "recorded": {}, "run": "rm"}, "unknown field"),
    "too large": (_floats(shape=[2**20, 2**20]), "too large"),
    "negative": (_floats(shape=[-1]), "no array has the shape"),
    "values of another shape": (_floats(values=[1.0]), "1 values for the shape"),
    "family": (_floats(structure="__import__('os')"), "no family"),
    "dtype": ({"is": "int", "dtype": "object", "shape": [2]}, "dtype `object`"),
    "type": ({"is": "pickle", "data": "gASV"}, "no recording of ours"),
    "tower": (_tower(40), "nested too deeply"),
    "tree": ({"is": "tree", "kind": "set", "items": []}, "no dict, object, list or tuple"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_recordings_are_refused(name: str, tmp_path: Path) -> None:
    content, says = HOSTILE[name]
    if isinstance(content, dict) and "is" in content:
        content = {"format": 1, "recorded": {"a.py:f": [{"arguments": {"x": content}}]}}
    file = tmp_path / "calls.json"
    file.write_text(json.dumps(content))
    with pytest.raises(SettingsError, match=says.replace("(", r"\(")):
        recorded_calls.load(file)


def test_paths_in_a_recording_are_names_only(tmp_path: Path) -> None:
    calls = {"../../etc/passwd:f": [RecordedCall(arguments={"x": PlainArg(value=1)})]}
    file = tmp_path / "calls.json"
    recorded_calls.save(file, calls)
    assert recorded_calls.of_file(recorded_calls.load(file), "model.py") == {}


def test_new_calls_replace_those_of_the_same_function_and_keep_others() -> None:
    def call(n: int) -> RecordedCall:
        return RecordedCall(arguments={"x": FloatArg(dtype="float32", shape=[n])})

    merged = recorded_calls.merged(
        {"a:f": [call(1)], "a:g": [call(2)]}, [{"a:f": [call(9), call(3)]}]
    )
    assert merged == {"a:f": [call(3), call(9)], "a:g": [call(2)]}


def test_what_is_saved_comes_back_an_argument_a_line(tmp_path: Path) -> None:
    numbers = FloatArg(dtype="float32", shape=[2], values=[1.0, 2.5])
    calls = {"a.py:f": [RecordedCall(arguments={"x": numbers, "n": PlainArg(value=3)})]}
    file = tmp_path / "calls.json"
    recorded_calls.save(file, calls)
    assert recorded_calls.load(file) == calls
    assert len([line for line in file.read_text().splitlines() if line.startswith("    ")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["calls.json"]


def test_no_file_is_no_calls(tmp_path: Path) -> None:
    assert recorded_calls.load(tmp_path / "calls.json") == {}


def test_a_folder_is_no_recording(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="Is a directory"):
        recorded_calls.load(tmp_path)


def test_a_file_gets_its_own_calls_by_qualname() -> None:
    one, other = ([RecordedCall(arguments={"x": PlainArg(value=n)})] for n in (1, 2))
    calls = {"a.py:A.f": one, "sub/a.py:f": other}
    assert recorded_calls.of_file(calls, "a.py") == {"A.f": one}


def test_equal_calls_are_kept_once_and_no_more_than_a_few() -> None:
    calls = [RecordedCall(arguments={"x": PlainArg(value=n % 50)}) for n in range(100)]
    (kept,) = recorded_calls.merged({}, [{"a:f": calls}]).values()
    assert len(kept) == recorded_calls.MOST_CALLS < 50
    assert len(recorded_calls.merged({}, [{"a:f": calls[:1] * 9}])["a:f"]) == 1
