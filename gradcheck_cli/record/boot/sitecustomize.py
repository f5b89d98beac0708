"""Python imports this first in a process under `cgcheck record`, then the one that it stands before."""

import os
import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from pathlib import Path

_HERE = Path(__file__).resolve().parent
sys.path[:] = [p for p in sys.path if Path(p).resolve() != _HERE]
spec = PathFinder.find_spec("sitecustomize", sys.path)
if spec is not None and spec.loader is not None:  # the environment's own
    sys.modules["sitecustomize"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["sitecustomize"])

if folder := os.environ.get("CGCHECK_RECORD"):
    try:
        from gradcheck_cli.record.in_process import start
    except ImportError as error:
        print(f"cgcheck: not recorded: {error} (in {sys.executable})", file=sys.stderr)
    else:
        start(folder)
