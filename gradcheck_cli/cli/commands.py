"""All commands, by their names."""

from __future__ import annotations

from gradcheck_cli.cli.cache import cache
from gradcheck_cli.cli.check import check
from gradcheck_cli.cli.explain import explain, rules
from gradcheck_cli.cli.init import init
from gradcheck_cli.cli.inputs import inputs
from gradcheck_cli.cli.lint import lint, server
from gradcheck_cli.cli.merge import merge
from gradcheck_cli.cli.record import record
from gradcheck_cli.cli.replay import replay, repro
from gradcheck_cli.cli.sweep import sweep

COMMANDS = (
    cache,
    check,
    explain,
    init,
    inputs,
    lint,
    merge,
    record,
    replay,
    repro,
    rules,
    server,
    sweep,
)
PASSED_ON = (record,)  # what they are given are another command's options
