"""Takes a booted guest; gives its profile, the files that the simulator is built from.

Uses `machine`, the workload of `guest`, and all below them.  Start with `record`; `profilefile` and
`symboltable` define the files.
"""
