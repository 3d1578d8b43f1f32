"""The clocks of a trace whose timestamps don't count nanoseconds."""

from __future__ import annotations

from typing import Final

COUNTS: Final = frozenset({"counter", "uptime", "x86-tsc", "ppc-tb"})  # kernel/trace/trace.c: trace_clocks
