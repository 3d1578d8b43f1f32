"""Shell scripts: a text comes in, and the statements that it makes when run go out.

Start with `scripts`, which follows a script; `syntax` reads words, `grammar` commands, `expansion` and `printing`
say what these stand for and print.
"""
