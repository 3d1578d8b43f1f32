"""Takes a kernel; gives a running virtual machine: QEMU, its console and control connection, its boot or clone, its
end.

Uses `images`, `agent`, `debian` and `host`.  Start with `machine`, the class that users have;
`launch` says how one comes up.
"""
