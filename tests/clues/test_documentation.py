"""Texts about what a factory makes: the comment above it in the module, and the string below."""

from __future__ import annotations

import importlib.util
import textwrap
from pathlib import Path
from typing import Any

import pytest

from gradcheck_cli.clues.docstrings import clues
from gradcheck_cli.clues.documentation import texts_about

MODEL = '''
    def _build(scale):
        def loglik(x, w):
            return scale * x @ w
        return loglik

    # nothing to do with it

    #: ``loglik(x, w)``: x (N, D),
    #: and w (D,).
    loglik = _build(2.0)
    """The likelihood of N rows."""

    #: of another factory
    other = str(3)
    '''


def loaded(path: Path, text: str) -> Any:
    """The module of this text."""
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_stands_around_the_call_of_a_factory(tmp_path: Path) -> None:
    module = loaded(tmp_path / "made_here.py", MODEL)
    said = {text.source: text.text for text in texts_about(module.loglik) if text.near}
    assert said["a comment above `loglik`"] == "``loglik(x, w)``: x (N, D),\nand w (D,)."
    assert said["the docstring of `loglik`"] == "The likelihood of N rows."
    assert not any("another factory" in text for text in said.values())


REGISTERED = '''
    def RegisterGradient(name):
        return lambda f: f

    @RegisterGradient("GuidedRelu")
    def _grad(op, g):
        return g

    def guided(x):
        """Only what is positive goes back."""
        return graph.gradient_override_map({"Relu": "GuidedRelu"}, x)

    def other(x):
        """Of something else."""
        return graph.gradient_override_map({"Relu": "Plain"}, x)
    '''


def test_what_takes_it_by_its_registered_name_speaks_of_it(tmp_path: Path) -> None:
    module = loaded(tmp_path / "registered_here.py", REGISTERED)
    said = [text.text for text in texts_about(module._grad) if text.near]
    assert said == ["Only what is positive goes back."]


OPTIONS = '''
    def build(position="mid", scale=1.0):
        """Light in layers.

        position: "top", "mid" or "bottom".
        scale: of the whole.

        Returns:
            ``profile(lai, scale)`` for ``lai`` (batch, layer).
        """
        def profile(lai, scale):
            return lai * len(position) * scale
        return profile
    '''


def test_a_factory_speaks_of_its_options_and_of_what_the_function_takes(tmp_path: Path) -> None:
    module = loaded(tmp_path / "options_here.py", OPTIONS)
    (text,) = [t for t in texts_about(module.build()) if t.source == "the docstring of `build`"]
    assert text.hidden == {"scale"}  # which is the function's own
    said = clues(module.build(), ["lai", "scale", "position"])
    assert said["position"][0].values == ("top", "mid", "bottom")
    assert said["lai"][0].spec == "f32[batch layer]"


BESIDE = """
    def power(beat,    # real (batch, samples)
              window,  # (samples,)
              size):   # at least the number of samples
        return beat * window


    def scaled(beat, window):  # (batch, samples)
        return beat
    """


def test_a_comment_in_the_first_line_is_the_first_parameters_where_each_has_its_own(
    tmp_path: Path,
) -> None:
    module = loaded(tmp_path / "beside.py", BESIDE)
    said = clues(module.power, ["beat", "window", "size"])
    assert (said["beat"][0].spec, said["window"][0].spec) == ("f32[batch samples]", "f32[samples]")
    assert "beat" not in clues(module.scaled, ["beat", "window"])


MODULE = """
    # volts throughout; currents in mA; te > 0, ies > iis > 0
    # x > 88 overflows in float32. {more}
    K = 3


    # of the function below; v > 0
    def probe(v, te, x=1.0):
        # inside of it
        return v / te * x

    # v > 1
    """


def test_bounds_that_comments_above_all_definitions_state_hold_in_the_module(
    tmp_path: Path,
) -> None:
    module = loaded(tmp_path / "probes.py", MODULE.format(more="K > 1"))
    (text,) = (t for t in texts_about(module.probe) if t.source == "a comment of the module")
    assert text.text == "te > 0, ies > iis > 0; K > 1"
    domains = {
        name: found[0].domain for name, found in clues(module.probe, ["v", "te", "x"]).items()
    }
    assert domains == {"v": "> 0", "te": "> 0"}


@pytest.mark.parametrize(
    "comment",
    [
        "x > 20 is treated as linear", "y = torch.where(x > 0, x, 0)", "old: relu(x) = x, x > 0", "x <= 0: undefined",
        "np.exp(x) overflows, x > 709", "outside 0 < x < 1 clamp", "n > 2 dims", "x: int in the tables below",
    ],
)  # fmt: skip
def test_a_comment_that_says_more_states_no_bounds(comment: str, tmp_path: Path) -> None:
    text = f"# {comment}\n\n\ndef f(x):\n    return x\n"
    assert clues(loaded(tmp_path / "f.py", text).f, ["x"]) == {}


LOOK = '''
    """Frames are (N, 3, H, W), in RGB order."""
    from typing import NamedTuple

    class Look(NamedTuple):
        slope: object       # (N, 3), positive
        saturation: object  # (N,), 1 leaves colours alone

    class Other(NamedTuple):
        slope: object  # (M,)

    def graded(frame, slope, saturation):
        return frame

    def of_one_name(frame, slope):
        return frame

    def unrelated(frame, slope, saturation):
        return frame

    def fitted(frame, look):
        return graded(frame, *look) + unrelated(frame, look.slope, 1.0)
    '''


def test_fields_that_are_called_as_several_parameters_speak_of_these(tmp_path: Path) -> None:
    module = loaded(tmp_path / "look_here.py", LOOK)
    found = clues(module.graded, ["frame", "slope", "saturation"])
    specs = {name: each[0].spec for name, each in found.items()}
    assert specs == {"frame": "f32[N 3 H W]", "slope": "f32[N 3]", "saturation": "f32[N]"}
    assert "slope" not in clues(module.of_one_name, ["frame", "slope"])
    assert "slope" not in clues(module.unrelated, ["frame", "slope", "saturation"])
