"""Takes scenarios; gives the text that a real kernel prints for each, and where the simulator's differs.

Start with `stage`; `likeness` says in what two texts of one scenario may differ.
"""
