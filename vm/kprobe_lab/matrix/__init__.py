"""Tries a fixed table of features on kernels and simulators; gives two pages of what each kernel answers.

Start with `features`, the table, then `measure`; `matrix` is the verb and `page` writes the pages.
"""
