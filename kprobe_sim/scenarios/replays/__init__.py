"""The listings of five documents on kprobe events, replayed: what their authors typed produces what they saw.

The data lie in kprobe_sim/scenarios/replays/seeds/DOCUMENT/LISTING.  May use: kernel and below; the command `kprobe` is
found by its entry point.  Begin with `listing`.
"""
