"""`python -m kprobe_vm` is the command `kprobe-vm`."""

import sys

from kprobe_vm.cli import main

sys.exit(main())
