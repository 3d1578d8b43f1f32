"""Developers run `make fresh` before a release: the README's commands in a minimal Debian with python3, make and git.

    tools/setup/fresh.py bookworm                          make demo and make test, as an ordinary user
    tools/setup/fresh.py sid --as-root --without fuse      as root, on a machine without /dev/fuse
    tools/setup/fresh.py trixie --without namespaces       where a user can't make user namespaces
    tools/setup/fresh.py sid -- make demo                  another command

debootstrap makes the root of a release once (with python3-venv too); it is cached for 30 days, like the downloads of
pip.  A run works on a layer above it, in its own mount and PID namespaces: nothing stays mounted, running or changed.
It needs root, debootstrap and util-linux.  The checkout is a clone of what is committed.  The exit status is the
command's.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from kprobe_vm.host.cache import Cache
from kprobe_vm.host.scratch import scratch

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("python3", "python3-venv", "make", "git")
KEPT_FOR = 30 * 24 * 3600  # seconds
USER = 1000
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}

# what pip needs to reach its index from this machine, and the files of these that the root lacks
PASSED = ("PIP_CERT", "PIP_INDEX_URL", "PIP_DEFAULT_TIMEOUT", "PIP_TRUSTED_HOST", "SSL_CERT_FILE", "http_proxy",
          "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY")  # fmt: skip
FILES = ("PIP_CERT", "SSL_CERT_FILE")

# $1 the root of the release, $2 a place for the layer, $3 pip's downloads, $4 the checkout, $5 the user's number,
# $6 what the machine lacks, the rest the command.  The layer is memory, as an overlay can't lie on another.
# A process whose root isn't its mount namespace's (chroot) can't make user namespaces; after pivot_root it can.
MACHINE = r"""
base=$1 layer=$2 downloads=$3 checkout=$4 user=$5 lacks=$6
shift 6
mount -t tmpfs -o mode=755 tmpfs "$layer"
mkdir "$layer/upper" "$layer/work" "$layer/root"
mount -t overlay overlay -o "lowerdir=$base,upperdir=$layer/upper,workdir=$layer/work" "$layer/root"
cd "$layer/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs -o mode=755 tmpfs dev
for node in null:3 zero:5 full:7 random:8 urandom:9; do mknod -m 666 "dev/${node%:*}" c 1 "${node#*:}"; done
mknod -m 666 dev/tty c 5 0
case $lacks in *fuse*) ;; *) mknod -m 666 dev/fuse c 10 229 ;; esac
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=1777 tmpfs dev/shm
cp /etc/resolv.conf etc/resolv.conf
for file in $FILES; do mkdir -p "./${file%/*}"; cp -L "$file" "./$file"; done
chroot . useradd --create-home --uid 1000 --shell /bin/sh user
home=root; [ "$user" = 0 ] || home=home/user
mkdir -p "$home/.cache/pip"
mount --bind "$downloads" "$home/.cache/pip"
git -c safe.directory='*' clone --quiet --no-hardlinks "$checkout" "$home/checkout"
chroot . chown -R "$user:$user" "/$home/.cache" "/$home/checkout"
become="setpriv --reuid=$user --regid=$user --clear-groups"
begin="cd /$home/checkout && exec \"\$@\""
case $lacks in
*namespaces*) exec chroot . $become env -i HOME=/$home $PASSED PATH="$PATH" sh -c "$begin" sh "$@" ;;
esac
mkdir old
pivot_root . old
umount -l old
rmdir old
exec $become env -i HOME=/$home $PASSED PATH="$PATH" sh -c "$begin" sh "$@"
"""
COMMANDS = "python3 --version && make demo && make test"


def release(suite: str, cache: Cache) -> Path:
    """Return the root of a release, made unless it is there and not too old."""
    place = cache.directory("releases") / suite
    with cache.lock(f"release-{suite}"):
        if place.exists() and time.time() - place.stat().st_mtime < KEPT_FOR:
            return place
        shutil.rmtree(place, ignore_errors=True)
        print(f"debootstrap {suite}", file=sys.stderr, flush=True)
        with scratch(place.parent) as half:
            made = half / suite
            include = f"--include={','.join(PACKAGES)}"
            architecture = f"--arch={MACHINES[platform.machine()]}"
            done = subprocess.run(
                ["debootstrap", "--variant=minbase", architecture, include, suite, made],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            if done.returncode != 0:
                sys.exit(f"{done.stdout}debootstrap {suite} failed with status {done.returncode}")
            os.utime(made)
            made.rename(place)
    return place


def run(suite: str, cache: Cache, user: int, lacks: str, command: list[str], environment: Mapping[str, str]) -> int:
    """Run a command on a fresh machine with a release; return its status."""
    downloads = cache.directory("releases") / f"{suite}-pip-{user}"  # which belongs to whoever runs pip
    downloads.mkdir(exist_ok=True)
    passed = {name: environment[name] for name in PASSED if name in environment}
    words = {
        "PASSED": " ".join(f"{name}={value}" for name, value in passed.items()),
        "FILES": " ".join(passed[name] for name in FILES if name in passed),
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    }
    with scratch() as layer:
        shell = ["sh", "-euc", MACHINE, "machine", release(suite, cache), layer, downloads, ROOT, str(user), lacks]
        apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"]
        return subprocess.run([*apart, *shell, *command], env=words, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", help="bookworm, trixie, sid …")
    parser.add_argument("--as-root", action="store_true", help="as root; else as an ordinary user")
    parser.add_argument("--without", action="append", choices=("fuse", "namespaces"), default=[])
    words = sys.argv[1:]
    end = words.index("--") if "--" in words else len(words)
    options = parser.parse_args(words[:end])
    if os.geteuid() != 0:
        sys.exit("a fresh machine takes root's rights, for debootstrap and for mounts of its own: sudo")
    missing = [name for name in ("debootstrap", "unshare", "git") if shutil.which(name) is None]
    if missing:
        sys.exit(f"{' and '.join(missing)} isn't installed: apt-get install debootstrap util-linux git")
    command = words[end + 1 :] or ["sh", "-c", COMMANDS]
    user = 0 if options.as_root else USER
    return run(options.suite, Cache.of(os.environ), user, " ".join(options.without), command, os.environ)


if __name__ == "__main__":
    sys.exit(main())
