"""The types of ring buffer entries that belong to the tracer itself (enum trace_type in kernel/trace/trace.h)."""

from __future__ import annotations

TRACE_FN = 1
TRACE_STACK = 4
TRACE_PRINT = 5
