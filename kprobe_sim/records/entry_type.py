"""The types of ring buffer entries that are the tracer's own (enum trace_type in kernel/trace/trace.h)."""

from __future__ import annotations

TRACE_FN = 1
TRACE_STACK = 4
TRACE_PRINT = 5
