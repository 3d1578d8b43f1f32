"""A kernel's profile, which the simulator is built from: read from a booted guest and written as files.

Uses `machine`, the workload of `guest`, and all below them.  Start with `record`; `profilefile` and
`symboltable` define the files.
"""
