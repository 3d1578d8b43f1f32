import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kprobe_vm.images.cpio import archive, device, directory, regular, symlink


def test_a_record_has_the_fields_of_newc_in_their_order() -> None:
    written = archive([regular("init", b"#!", 0o755)])
    assert written[:110] == (
        b"070701" b"00000001" b"000081ed" b"00000000" b"00000000" b"00000001" b"00000000" b"00000002"
        b"00000000" b"00000000" b"00000000" b"00000000" b"00000005" b"00000000"
    )  # fmt: skip
    assert written[110:120] == b"init\0\0#!\0\0"


def test_the_archive_ends_with_the_trailer_on_a_block() -> None:
    written = archive([])
    assert written[110:121] == b"TRAILER!!!\0"
    assert len(written) == 512


def test_a_console_needs_no_mknod() -> None:
    written = archive([device("dev/console", 5, 1)])
    assert written[14:22] == b"00002180"  # S_IFCHR | 0600
    assert written[78:94] == b"0000000500000001"


def test_equal_content_gives_equal_archives() -> None:
    entries = [directory("bin"), symlink("bin/sh", "busybox")]
    assert archive(entries) == archive(list(entries))


@given(st.binary(max_size=40), st.text("abcdefgh", min_size=1, max_size=9))
def test_everything_starts_on_a_word(data: bytes, name: str) -> None:
    assert archive([regular(name, data), regular("last", b"")]).index(b"070701", 6) % 4 == 0


@pytest.mark.requires("cpio")
def test_the_cpio_command_reads_it(tmp_path: Path) -> None:
    written = archive([directory("etc"), regular("etc/hostname", b"guest\n"), symlink("etc/name", "hostname")])
    listed = subprocess.run(["cpio", "-itv"], input=written, capture_output=True, check=True).stdout.decode()
    assert [line.split()[0] for line in listed.splitlines()] == ["drwxr-xr-x", "-rw-r--r--", "lrwxrwxrwx"]
    assert listed.splitlines()[2].endswith("etc/name -> hostname")
