"""Settings: `[tool.cgcheck]` of the nearest pyproject.toml, under the command line's flags."""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from gradcheck_cli.contract.errors import SettingsError, UsageError
from gradcheck_cli.contract.schemas import schema_of
from gradcheck_cli.project.framework_marks import Backend
from gradcheck_cli.project.input_specs import SpecError
from gradcheck_cli.project.input_specs import parse as parse_spec
from gradcheck_cli.project.intent_specs import IntentError
from gradcheck_cli.project.intent_specs import parse as parse_intents
from gradcheck_cli.project.rule_pages import matching

DTYPES = ("float64", "float32", "bfloat16", "float16")
_WRONG_KIND = re.compile(r"Expected `(?P<wanted>[^`]*)`, got `(?P<got>\w+)` - at `\$\.(?P<key>[^`]*)`")  # fmt: skip
_NO_CHOICE = re.compile(r"Invalid enum value .* - at `\$\.(?P<key>[\w-]*)`")
_KINDS = {
    "int": "a whole number", "float": "a number", "str": "text", "bool": "true or false",
    "array": "a list", "object": "a table", "null": "nothing",
}  # fmt: skip


def _about(words: str) -> msgspec.Meta:
    """What a setting that is no flag means: for the schema, and for the page of settings."""
    return msgspec.Meta(description=words)


class Settings(msgspec.Struct, frozen=True, kw_only=True, rename="kebab"):
    """Every setting with its default. The names are the names of the flags."""

    select: list[str] = []
    ignore: list[str] = []
    exclude: list[str] = []
    force_exclude: bool = False
    per_file_ignores: Annotated[
        dict[str, list[str]], _about("Patterns of paths, and the rules that are not told there.")
    ] = {}
    baseline: str = ""  # a file of findings that are known, relative to the project's root
    fail_on: Literal["error", "warning", "note", "never"] = "error"
    strict: bool = False
    dtype: list[str] = msgspec.field(default_factory=lambda: ["float32"])
    points: int = 256
    search: int = 0  # inputs beyond the lattice that hypothesis tries for each signature
    order: Literal[1, 2] = 1  # 2: a second derivative that is wrong is an error
    seed: int = 0
    max_time: float | None = 120.0
    reach: float = 1e9
    device: Literal["cpu", "gpu"] = "cpu"
    backend: list[Backend] = []  # of Keras; empty: that which a file chooses, else all installed
    jobs: int = 0
    cluster: str = ""  # a dask scheduler that does the work instead of this machine
    memory_limit: Annotated[int, _about("MiB that each worker may take.")] = 8192
    import_all: bool = False
    optional_imports: Annotated[
        list[str], _about("Packages that may be missing: what needs them is a note.")
    ] = []
    recordings: Annotated[
        str, _about("The file of `cgcheck record`, relative to the project's root.")
    ] = "cgcheck-recorded.json"
    expects: Annotated[
        dict[str, str],
        _about('Custom gradients, and the deviation that is meant: "expect(straight-through)".'),
    ] = {}
    inputs: Annotated[
        dict[str, str], _about('Custom gradients, and their arguments: "x=f32[b n], axis=-1".')
    ] = {}
    references: Annotated[
        dict[str, str],
        _about('Custom gradients, and what they are to differentiate: "module:function".'),
    ] = {}


def load(start: Path) -> tuple[Settings, Path]:
    """The settings for this place, and the project root that paths are shown relative to."""
    here = start.resolve()
    folders = [here, *here.parents] if here.is_dir() else list(here.parents)
    root = None
    for folder in folders:
        file = folder / "pyproject.toml"
        if file.is_file():
            table = _table(file)
            if table is not None:
                return parse(table, str(file)), folder
            root = root or folder
        if (folder / ".git").exists():
            root = root or folder
            break
    return Settings(), root or Path.cwd()


def load_for(
    target: str, config: str | None = None, *, isolated: bool = False
) -> tuple[Settings, Path]:
    """The settings for FILE, FILE:function or a module, as the command line names them.

    `config` is a file that stands in for the nearest pyproject.toml; `isolated`: no file is read.
    """
    path = Path(target.rpartition(":")[0] or target)
    here = path if path.exists() else Path.cwd()
    if isolated:
        return Settings(), root_of(here)
    if config is None:
        return load(here)
    return parse(_named_table(Path(config)), config), root_of(here)


def root_of(here: Path) -> Path:
    """The folder that paths are shown relative to: the nearest with a pyproject.toml or a repository."""
    start = here.resolve()
    folders = [start, *start.parents] if start.is_dir() else list(start.parents)
    marked = (f for f in folders if (f / "pyproject.toml").is_file() or (f / ".git").exists())
    return next(marked, Path.cwd())


def _named_table(file: Path) -> dict[str, object]:
    """The table of a file that was named: `[tool.cgcheck]`, or the whole of one that has no `[tool]`."""
    data = _toml(file)
    return _own_table(data, file) or {} if "tool" in data else data


def parse(table: dict[str, object], where: str) -> Settings:
    """Validate a settings table; unknown keys are refused with the nearest valid one."""
    keys = [field.encode_name for field in msgspec.structs.fields(Settings)]
    for key in table:
        if key not in keys:
            close = difflib.get_close_matches(key, keys, n=1)
            hint = f"; did you mean `{close[0]}`?" if close else f"; valid keys: {', '.join(keys)}"
            raise SettingsError(f"{where}: unknown key `{key}` in [tool.cgcheck]{hint}")
    if isinstance(table.get("dtype"), str):
        table = {**table, "dtype": [table["dtype"]]}
    try:
        settings = msgspec.convert(table, Settings, strict=True)
    except msgspec.ValidationError as error:
        raise SettingsError(f"{where}: [tool.cgcheck] {_in_words(str(error))}") from None
    return validated(settings, where)


def _in_words(problem: str) -> str:
    """What is wrong with a value, without the names that a library has for kinds of values."""
    properties = schema()["$defs"]["Settings"]["properties"]
    if (choice := _NO_CHOICE.fullmatch(problem)) is not None:
        choices = properties[choice["key"]].get("enum", ())
        return f"`{choice['key']}` has to be one of {', '.join(map(str, choices))}"
    match = _WRONG_KIND.fullmatch(problem)
    if match is None:
        return problem
    wanted = " or ".join(_KINDS.get(kind, kind) for kind in match["wanted"].split(" | "))
    about = properties.get(match["key"], {}).get("description", "")
    meant = f" ({about.rstrip('.')})" if about else ""
    got = _KINDS.get(match["got"], match["got"])
    return f"`{match['key']}` has to be {wanted}{meant}, and is {got}"


def with_flags(settings: Settings, flags: Mapping[str, object], where: str) -> Settings:
    """The settings under those of the flags that were given; other names than theirs do not count."""
    names = {field.name for field in msgspec.structs.fields(Settings)}
    given = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in flags.items()
        if name in names and value is not None and value is not False and value not in ((), [])
    }
    return validated(msgspec.structs.replace(settings, **given), where)


def schema() -> dict[str, Any]:
    """The JSON Schema of `[tool.cgcheck]`: what editors complete and check."""
    return schema_of(Settings)


def validated(settings: Settings, where: str) -> Settings:
    """Checks that types alone cannot say."""
    for dtype in settings.dtype:
        if dtype not in DTYPES:
            close = difflib.get_close_matches(dtype, DTYPES, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"one of {', '.join(DTYPES)}"
            raise SettingsError(f"{where}: unknown dtype `{dtype}`; {hint}")
    for name, least in (("points", 1), ("search", 0), ("jobs", 0), ("memory_limit", 64)):
        if getattr(settings, name) < least:
            raise SettingsError(f"{where}: `{name.replace('_', '-')}` must be at least {least}")
    for name in (*settings.select, *settings.ignore):
        matching(name)  # refuses what is no rule, code or family
    _know_rules(settings.per_file_ignores, where)
    for name, text in settings.inputs.items():
        try:
            parse_spec(text)
        except SpecError as error:
            raise SettingsError(f"{where}: the inputs of `{name}`: {error}") from None
    for name, text in settings.expects.items():
        try:
            parse_intents(text)
        except IntentError as error:
            raise SettingsError(f"{where}: what `{name}` expects: {error}") from None
    if not settings.reach > 0:
        raise SettingsError(f"{where}: `reach` must be positive")
    if settings.max_time is not None and not settings.max_time > 0:
        raise SettingsError(f"{where}: `max-time` must be positive")
    return settings


def _know_rules(ignores: Mapping[str, Sequence[str]], where: str) -> None:
    """Refuse names of rules that do not exist, with the nearest that does."""
    for pattern, names in ignores.items():
        for name in names:
            try:
                matching(name)
            except UsageError as unknown:
                place = f"what `per-file-ignores` has for `{pattern}`"
                raise SettingsError(f"{where}: {place}: {unknown}") from None


def _table(file: Path) -> dict[str, object] | None:
    """`[tool.cgcheck]`, if the file has it."""
    return _own_table(_toml(file), file)


def _own_table(data: dict[str, object], file: Path) -> dict[str, object] | None:
    tool = data.get("tool", {})
    table = tool.get("cgcheck") if isinstance(tool, dict) else tool
    if table is not None and not isinstance(table, dict):
        raise SettingsError(f"{file}: [tool.cgcheck] must be a table")
    return table


def _toml(file: Path) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{file}: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file}: not valid TOML: {error}") from None
