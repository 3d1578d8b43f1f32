"""Takes requests and gives the replies of the agent, process 1 of a guest; holds the agent's source, too.

Knows no QEMU: a socket that speaks the protocol is all it needs.  Uses `host`.  Start with `protocol.h`, then
`channel`; `tracefs` and `process` make its requests.
"""
