"""Histograms: the line of a hist trigger -> counts, actions, and the text of the `hist` file.

Start with `maker`, which reads a trigger, and `data`, which counts.
"""
