"""The kprobe events of the patch of 2009, before they came into the kernel: `sim:2009`.

May use: probes and below.  Begin with `kprobes`; what is known of the patch is in scenarios/replays/seeds.
"""
