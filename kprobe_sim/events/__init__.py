"""Events and trace instances: what is enabled where, with which filter and triggers; records on their way to a buffer.

May use `fetch` and what is below.  Start with `event`, then `trace_array`, `instance` and `recording`.
"""
