"""The agent, process 1 of a guest, and the host's end of the line to it.

Knows no QEMU: a socket that speaks the protocol is all it needs.  Uses `host`.
Start with the head of `agent.c`, which is the protocol, then `channel`; `tracefs` and `process` are what is asked
over it.
"""
