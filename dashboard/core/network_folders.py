"""Does a folder lie on a network file system? SQLite's write-ahead log does not hold there.

Its index is shared memory, which two machines do not share, and locks may be granted to both
(sqlite.org/wal.html: "WAL does not work over a network filesystem").
"""

from __future__ import annotations

import re
from pathlib import Path

MOUNTINFO = Path("/proc/self/mountinfo")
# Types as the kernel names them (proc_pid_mountinfo(5)); FUSE adds its own after a dot.
NETWORK_TYPES = frozenset({
    "9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "gfs", "gfs2", "glusterfs", "gpfs",
    "lustre", "ncpfs", "nfs", "nfs4", "ocfs2", "orangefs", "panfs", "prl_fs", "pvfs2", "smb2",
    "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs", "wekafs",
})  # fmt: skip
_FUSE = frozenset({
    "JuiceFS", "alluxio-fuse", "beegfs", "blobfuse", "blobfuse2", "ceph", "ceph-fuse", "cephfs",
    "cosfs", "curlftpfs", "davfs", "davfs2", "fuse_dfs", "gcsfuse", "geesefs", "glusterfs",
    "goofys", "hdfs", "juicefs", "lizardfs", "mfs", "mfsmount", "moosefs", "mountpoint-s3", "nfs",
    "obsfs", "ossfs", "quobyte", "rclone", "s3fs", "s3fs-fuse", "s3ql", "seaweedfs", "smbnetfs",
    "sshfs", "vmhgfs-fuse", "weed",
})  # fmt: skip


# Whose times are this host's own, with inodes and owners on the disk: what may lie behind another
# host is not among them.
_LOCAL = frozenset({
    "bcachefs", "btrfs", "ext2", "ext3", "ext4", "f2fs", "jfs", "overlay", "ramfs", "reiserfs",
    "rootfs", "tmpfs", "xfs", "zfs",
})  # fmt: skip


def network_type(path: Path, mountinfo: Path | None = None) -> str | None:
    """The type and mount point of the network file system that holds a path, or will; else None.

    None too where the machine does not tell its mounts. Links are followed: what counts is where
    the bytes go.
    """
    found = _held_by(path, mountinfo)
    return f"{found[0]} at {found[1]}" if found is not None and _is_network(found[0]) else None


def is_local(path: Path, mountinfo: Path | None = None) -> bool:
    """Whether a path lies on a file system that surely goes by this host's clock, or on a machine
    that does not tell its mounts.
    """
    found = _held_by(path, mountinfo)
    return found is None or found[0] in _LOCAL


def keeps_files(path: Path) -> bool:
    """Whether a path surely lies on a file system that keeps a file's number and owner over
    reboots and mounts; False too where the machine does not tell its mounts.
    """
    found = _held_by(path, None)
    return found is not None and found[0] in _LOCAL


def _held_by(path: Path, mountinfo: Path | None) -> tuple[str, Path] | None:
    try:
        lines = (mountinfo or MOUNTINFO).read_text(errors="surrogateescape").splitlines()
    except OSError:
        return None
    there = path.resolve()
    found: tuple[int, str, Path] | None = None
    for line in lines:
        left, separator, right = line.partition(" - ")
        fields, after = left.split(), right.split()
        if not separator or len(fields) < 5 or not after:
            continue
        point = Path(_plain(fields[4]))
        # The longest mount point holds it; of two on one another, the later one.
        if there.is_relative_to(point) and (found is None or len(point.parts) >= found[0]):
            found = (len(point.parts), after[0], point)
    return None if found is None else (found[1], found[2])


def _is_network(kind: str) -> bool:
    outer, _, inner = kind.partition(".")
    return kind in NETWORK_TYPES or (outer == "fuse" and inner in _FUSE)


def _plain(text: str) -> str:
    """Blanks and backslashes are octal there."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
