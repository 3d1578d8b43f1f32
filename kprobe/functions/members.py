"""The most telling members behind a parameter's pointer: a file's name, a task's, a request's position."""

from __future__ import annotations

# By struct: the argument's name, and the path to the member.  Pointers are followed; text is an array of characters or
# a pointer to them.  The kernel's BTF says whether a member exists, and where.
# Source: the headers of kernels 5.10 to 7.3; 5.10.0-46, 6.1.0-54 and 6.12.117 were traced so in guests.
MEMBERS: dict[str, tuple[tuple[str, str], ...]] = {
    "struct bio": (("sector", "bi_iter.bi_sector"), ("size", "bi_iter.bi_size")),
    "struct block_device": (("dev", "bd_dev"),),
    "struct dentry": (("name", "d_name.name"),),
    "struct file": (("path", "f_path.dentry.d_name.name"),),
    "struct file_system_type": (("name", "name"),),
    "struct filename": (("name", "name"),),
    "struct gendisk": (("name", "disk_name"),),
    "struct inode": (("ino", "i_ino"),),
    "struct kobject": (("name", "name"),),
    "struct linux_binprm": (("name", "filename"),),
    "struct module": (("name", "name"),),
    "struct net_device": (("name", "name"),),
    "struct path": (("name", "dentry.d_name.name"),),
    "struct qstr": (("name", "name"),),
    "struct request": (("sector", "__sector"), ("size", "__data_len")),
    "struct sk_buff": (("len", "len"),),
    "struct sock": (("family", "__sk_common.skc_family"),),
    "struct sockaddr": (("family", "sa_family"),),
    "struct sockaddr_unsized": (("family", "sa_family"),),
    "struct super_block": (("name", "s_id"),),
    "struct task_struct": (("task", "comm"), ("tid", "pid")),
}


def members(text: str) -> tuple[tuple[str, str], ...]:
    """Return what is worth fetching behind a C pointer type: its name, and the path to it."""
    words = text.replace("*", " * ").split()
    struct = [word for word in words if word not in ("const", "volatile")]
    return MEMBERS.get(" ".join(struct[:2]), ()) if len(struct) == 3 and struct[2] == "*" else ()
