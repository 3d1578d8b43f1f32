"""Packages over the guest's root, and where their versions come from."""

from __future__ import annotations

import io
import shutil
import tarfile
from pathlib import Path

import pytest

from kprobe_vm.debian.archives import Archives
from kprobe_vm.errors import FetchFailed, PackageMissing
from kprobe_vm.host.cache import Cache
from kprobe_vm.images.additions import addition, entries, forget
from kprobe_vm.images.cpio import directory, regular, symlink

from .archive import LocalArchive, deb
from .conftest import Lab


def linked(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, target
    return member


def package_with_links(path: Path) -> Path:
    """A package with a directory, a file that has two names, a symbolic link, and documentation."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in ("./", "./bin/", "./usr/share/doc/x/"):
            member = tarfile.TarInfo(name)
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
        for name, data in (("./bin/x", b"x"), ("./usr/share/doc/x/copyright", b"c")):
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(data), 0o4755
            archive.addfile(member, io.BytesIO(data))
        archive.addfile(linked("./bin/y", "./bin/x", tarfile.LNKTYPE))
        archive.addfile(linked("./bin/z", "x", tarfile.SYMTYPE))
    data = packed.getvalue()
    header = f"{'data.tar':<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n"
    path.write_bytes(b"!<arch>\n" + header.encode() + data)
    return path


def test_the_files_of_packages(tmp_path: Path) -> None:
    first = package_with_links(tmp_path / "first.deb")
    second = tmp_path / "second.deb"
    second.write_bytes(deb("Package: second\n", {"bin/z": b"z"}))
    assert list(entries([first, second])) == [
        directory("bin"),
        regular("bin/x", b"x", 0o4755),
        regular("bin/y", b"x", 0o4755),
        regular("bin/z", b"z", 0o755),
    ]
    assert list(entries([first]))[-1] == symlink("bin/z", "x")


by_apt = pytest.mark.parametrize("lab", ["apt"], indirect=True)


@pytest.fixture
def suites(archive: LocalArchive) -> None:
    """Publish what bookworm consists of; the suite that is added to then is bookworm itself."""
    for suite in ("bookworm-updates", "bookworm"):
        archive.suite = suite
        archive.publish()
    archive.files |= {
        name.replace("/bookworm/", "/bookworm-security/").replace("/debian/", "/debian-security/"): data
        for name, data in archive.files.items()
        if "/bookworm/" in name
    }


@pytest.mark.slow
@by_apt
@pytest.mark.usefixtures("suites")
def test_a_set_keeps_its_versions_until_it_is_forgotten(lab: Lab, archive: LocalArchive) -> None:
    def content() -> bytes:
        archives = Archives.of(lab.environment, lab.cache, lab.said.append)
        return addition(lab.cache, ["tool"], archives).read_bytes()

    def stock(version: str) -> None:
        control = f"Package: tool\nVersion: {version}\nArchitecture: amd64\n"
        archive.add("tool", version, deb(control, {"bin/tool": f"tool {version}".encode()}))
        archive.publish()

    stock("1")
    assert b"tool 1" in content()
    stock("2")
    shutil.rmtree(lab.cache.root / "apt")
    assert b"tool 1" in content()
    forget(lab.cache)
    assert b"tool 2" in content()
    asked = len(archive.asked)
    assert b"tool 2" in content()
    assert len(archive.asked) == asked


@by_apt
@pytest.mark.usefixtures("suites")
@pytest.mark.parametrize(
    ("name", "words"), [("none", "Unable to locate package none"), ("-o", "'-o' is no package's name")]
)
def test_what_is_no_package(lab: Lab, name: str, words: str) -> None:
    with pytest.raises(FetchFailed, match=words):
        addition(lab.cache, [name], Archives.of(lab.environment, lab.cache, lab.said.append))


def test_dependencies_take_apt(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    archives = Archives.of({"KPROBE_VM_INDEX": "http://mirror.example/debian"}, cache, lambda _line: None)
    with pytest.raises(PackageMissing, match="not with KPROBE_VM_INDEX"):
        addition(cache, ["bash"], archives)
