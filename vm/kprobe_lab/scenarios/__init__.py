"""Scenarios on guests: the text that a real kernel prints for one, and whether the simulator's is the same.

May use `sides` and what is below; the simulator is reached through the entry points kprobe.scenarios.  Start with
`stage`; `likeness` says what two texts of one scenario may differ in.
"""
