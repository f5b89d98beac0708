"""What a component of a value or gradient is at a point, over the reals.

A component is regular, or it is known only by a nudge: the limit of a hole, a
pole, a kink (its sides differ), outside the domain, or undecided.
"""

from __future__ import annotations

REGULAR, LIMIT, POLE, KINK, OUTSIDE, UNDECIDED = range(6)
