"""`python -m kprobe_sim` is the command `kprobe-sim`."""

import sys

from kprobe_sim.cli import main

sys.exit(main())
