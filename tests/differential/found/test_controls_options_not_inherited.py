"""A new instance inherits the options of the top level, but not `trace_printk_dest`.

Found by a campaign on 6.12.117+deb13-cloud-amd64.
"""

from __future__ import annotations

import pytest

from kprobe_lab.campaign.regression import answers
from kprobe_lab.operations.operation import Make, Operation, Read

OPERATIONS: list[Operation] = [
    Make(path="instances/i1"),
    Read(path="instances/i1/trace_options"),
]
KERNEL = [
    [("mkdir", 0)],
    [
        (
            "instances/i1/trace_options",
            b"print-parent\nnosym-offset\nnosym-addr\nnoverbose\nnoraw\nnohex\nnobin\nnoblock\nnofields\ntrace_printk\nannotate\nnouserstacktrace\nnosym-userobj\nnoprintk-msg-only\ncontext-info\nnolatency-format\nrecord-cmd\nnorecord-tgid\noverwrite\nnodisable_on_free\nirq-info\nmarkers\nnoevent-fork\nnotrace_printk_dest\nnopause-on-trace\nhash-ptr\nfunction-trace\nnofunction-fork\nnodisplay-graph\nnostacktrace\nnotest_nop_accept\nnotest_nop_refuse\n",
        )
    ],
]


@pytest.mark.parametrize("spec", ["sim:6.12", pytest.param("vm:6.12", marks=pytest.mark.vm)])
def test_controls_options_not_inherited(spec: str) -> None:
    assert answers(spec, OPERATIONS) == KERNEL
