"""A parser comes in, and the shortest scenario whose trace text fools it goes out: `kprobe test-parser --break`.

Start with `search`; `rules` are what it tries one by one, and `case` turns what is drawn into a scenario.
"""
