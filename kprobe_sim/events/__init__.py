"""Records of events -> the ring buffers of the instances that enabled them, by way of filters and triggers.

Start with `event`, then `trace_array`, `instance` and `recording`.
"""
