"""Write the JSON Schemas of the report and of the settings: `docs/report.schema.json`, `docs/settings.schema.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gradcheck_cli.project.settings import schema as of_settings
from gradcheck_cli.report.json import schema as of_reports

DOCS = Path(__file__).parents[1] / "docs"


def main() -> None:
    write("report", of_reports())
    write("settings", of_settings())


def write(name: str, schema: dict[str, Any]) -> None:
    (DOCS / f"{name}.schema.json").write_text(json.dumps(schema, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
