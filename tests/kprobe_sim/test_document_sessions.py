"""Each `./kprobe` command of the documents, typed in a real terminal, on a kernel of their time: sim:3.13.

Of that kernel are the columns, and numbers that are hexadecimal without 0x, as perf-tools-examples has them further
down; what happens is what the activity `perf-tools` does.
"""

from __future__ import annotations

import re
import shlex
import sys

import pexpect
import pytest

from kprobe_sim.scenarios.replays.listing import documents, listings

OPENS, RETURNS = "(do_sys_open+0x0/0x220)", "(SyS_open+0x1e/0x20 <- do_sys_open)"
BIO = "(bio_alloc+0x0/0x30)"
KPROBE, UNNAMED = "          kprobe-26386 [001] d...", "           <...>-26387 [001] d..."
SUPERVISE, JBD = "       supervise-3055  [000] d...", "    jbd2/xvda1-8-212   [000] d..."
STRING = "'p:myopen do_sys_open filename=+0(%si):string'"
HEADINGS = [
    "#                              _-----=> irqs-off",
    "#                             / _----=> need-resched",
    "#                            | / _---=> hardirq/softirq",
    "#                            || / _--=> preempt-depth",
    "#                            ||| /     delay",
    "#           TASK-PID   CPU#  ||||    TIMESTAMP  FUNCTION",
    "#              | |       |   ||||       |         |",
]
# by command: lines, of which the first is the first event's; times are left out
TRACED = {
    "./kprobe p:do_sys_open": [f"{KPROBE} do_sys_open: {OPENS}", f"{UNNAMED} do_sys_open: {OPENS}"],
    "./kprobe r:do_sys_open": [f"{KPROBE} do_sys_open: {RETURNS}", f"{UNNAMED} do_sys_open: {RETURNS}"],
    "./kprobe -H p:do_sys_open": [*HEADINGS, f"{KPROBE} do_sys_open: {OPENS}"],
    "./kprobe 'r:myopen do_sys_open $retval'": [f"{KPROBE} myopen: {RETURNS} arg1=3"],
    "./kprobe 'r:myopen do_sys_open rval=$retval'": [f"{KPROBE} myopen: {RETURNS} rval=3"],
    "./kprobe 'p:myopen do_sys_open mode=%cx:u16'": [
        f"{KPROBE} myopen: {OPENS} mode=1",
        f"{UNNAMED} myopen: {OPENS} mode=0",
        f"{UNNAMED} myopen: {OPENS} mode=5c00",
    ],
    f"./kprobe {STRING}": [
        f'{KPROBE} myopen: {OPENS} filename="/etc/ld.so.cache"',
        f'{UNNAMED} myopen: {OPENS} filename="/lib/x86_64-linux-gnu/libc.so.6"',
    ],
    f"./kprobe -H {STRING}": [*HEADINGS, f'{KPROBE} myopen: {OPENS} filename="/etc/ld.so.cache"'],
    f"./kprobe -p 1696 {STRING}": 2
    * [f'       supervise-1696  [001] d... myopen: {OPENS} filename="supervise/status.new"'],
    f"./kprobe {STRING} 'filename ~ \"*stat\"'": [
        f'        postgres-1172  [000] d... myopen: {OPENS} filename="pg_stat_tmp/pgstat.stat"',
        f'        postgres-4443  [001] d... myopen: {OPENS} filename="pg_stat_tmp/pgstat.stat"',
    ],
    "./kprobe 'p:myprobe bio_alloc %ax %bx %cx %dx'": [
        f"{SUPERVISE} myprobe: {BIO} arg1=ffff880064acc8d0 arg2=ffff8800e56a7990 arg3=0 arg4=ffff880064acc910",
        f"{JBD} myprobe: {BIO} arg1=ffffffff arg2=ffff8800ad1f87b8 arg3=ffff8800ba22c06c arg4=8",
    ],
    "./kprobe 'p:myprobe bio_alloc %ax:u32'": [f"{SUPERVISE} myprobe: {BIO} arg1=64acc8d0"],
    "./kprobe 'p:myprobe bio_alloc ax=%ax'": [f"{SUPERVISE} myprobe: {BIO} ax=ffff880064acc8d0"],
    "./kprobe 'r:myprobe bio_alloc $retval'": [
        f"{SUPERVISE} myprobe: (io_submit_init.isra.6+0x74/0x100 <- bio_alloc) arg1=ffff8800e55843c0",
        f"{JBD} myprobe: (submit_bh+0x76/0x120 <- bio_alloc) arg1=ffff8800e57596c0",
    ],
    "./kprobe -s 'p:mytcp tcp_init_cwnd'": [
        "            sshd-5121  [000] d... mytcp: (tcp_init_cwnd+0x0/0x40)",
        "            sshd-5121  [000] d... <stack trace>",
        " => tcp_write_xmit",
        " => __tcp_push_pending_frames",
        " => tcp_push",
        " => tcp_sendmsg",
        " => inet_sendmsg",
        " => sock_aio_write",
        " => do_sync_write",
        " => vfs_write",
        " => SyS_write",
        " => system_call_fastpath",
    ],
}
# of the usage: what no listing shows
EXAMPLES = {
    "./kprobe 'r:do_sys_open $retval'": [f"{KPROBE} do_sys_open: {RETURNS} arg1=3"],
    "./kprobe 'p:do_sys_open file=+0(%si):string' 'file ~ \"*stat\"'": [
        f'        postgres-1172  [000] d... do_sys_open: {OPENS} file="pg_stat_tmp/pgstat.stat"',
    ],
    "./kprobe -s 'p:myprobe tcp_retransmit_skb'": [
        "          <idle>-0     [000] d... myprobe: (tcp_retransmit_skb+0x0/0x5a0)",
        "          <idle>-0     [000] d... <stack trace>",
    ],
    f"./kprobe -L 1696 {STRING}": [
        f'       supervise-1696  [001] d... myopen: {OPENS} filename="supervise/status.new"'
    ],
}
FORMAT = """\
format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:unsigned long __probe_ip;	offset:8;	size:8;	signed:0;
	field:__data_loc char[] filename;	offset:16;	size:4;	signed:1;

print fmt: "(%lx) filename=\\"%s\\"", REC->__probe_ip, __get_str(filename)
"""


def typed(command: str) -> pexpect.spawn[str]:
    _, *arguments = shlex.split(command)
    return pexpect.spawn(
        sys.executable,
        ["-m", "kprobe", "--tracefs", "sim:3.13,activity=perf-tools", *arguments],
        encoding="utf-8",
        timeout=30,
        dimensions=(60, 200),
    )


@pytest.mark.slow
@pytest.mark.parametrize(("command", "lines"), [*TRACED.items(), *EXAMPLES.items()])
def test_a_command_in_a_terminal(command: str, lines: list[str]) -> None:
    child = typed(command)
    _, name = re.split(r"[pr]:", command, maxsplit=1)
    child.expect_exact(f"Tracing kprobe {re.split(r'[ %]', name)[0]}. Ctrl-C to end.\r\n".replace("'", ""))
    for line in lines:
        child.expect(r"([^\r]*)\r\n")
        while line in HEADINGS and child.match[1].startswith("#") and child.match[1] != line:
            child.expect(r"([^\r]*)\r\n")  # "# tracer: nop", and how many entries there are
        assert re.sub(r"^(.{33}\S*) +\d+\.\d{6}: ", r"\1 ", child.match[1]) == line
    child.sendintr()
    child.expect_exact("Ending tracing...\r\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0


def test_variables_in_a_terminal() -> None:
    child = typed(f"./kprobe -v {STRING}")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    name, number, rest = (child.before or "").replace("\r\n", "\n").split("\n", 2)
    assert (name, rest) == ("name: myopen", FORMAT)
    assert re.fullmatch(r"ID: \d+", number)


@pytest.mark.slow
def test_a_duration_into_a_file_in_a_terminal(tmp_path: object) -> None:
    """As typed, with one second in place of ten."""
    command = f"{sys.executable} -m kprobe --tracefs sim:3.13,activity=perf-tools -d 1 {STRING} > {tmp_path}/out"
    child = pexpect.spawn("sh", ["-c", command], encoding="utf-8", timeout=30, dimensions=(60, 200))
    child.expect_exact("Tracing kprobe myopen for 1 seconds (buffered)...\r\n")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    with open(f"{tmp_path}/out") as out:
        first, *others = out.read().splitlines()
    assert re.sub(r" *\d+\.\d{6}:", " STAMP:", first) == (
        f'{KPROBE} STAMP: myopen: {OPENS} filename="/etc/ld.so.cache"'
    )
    assert len(others) > 10
    assert all(f": myopen: {OPENS} filename=" in line for line in others)


def test_no_command_of_the_documents_is_left_out() -> None:
    typed = {line for name in documents() for one in listings(name) for line in one.commands if "./kprobe" in line}
    assert typed - TRACED.keys() == {f"./kprobe -v {STRING}", "./kprobe -h"}  # the latter: test_examples, test_help
