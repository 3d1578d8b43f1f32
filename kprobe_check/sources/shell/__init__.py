"""Shell scripts: a text comes in, and the statements go out that it makes when it is run.

Start with `scripts`, which follows a script; `syntax` reads words, `grammar` commands, `expansion` and `printing`
say what these stand for and print.
"""
