"""Three-valued truth in int8 arrays: `and` is minimum, `or` is maximum, `not` is 2 - a."""

from __future__ import annotations

NO = 0
UNKNOWN = 1
YES = 2
