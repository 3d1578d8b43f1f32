"""Kprobe events as the patch of 2009 had them, before they came into the kernel: lines -> probes of `sim:2009`.

Start with `kprobes`; what is known of the patch is in scenarios/replays/seeds.
"""
