"""Confine this process, then become a command: a program for a fresh interpreter, which imports nothing of gravbench.

Its one argument is a request (see ``confined.py``), as hexadecimal digits of what ``marshal`` writes. Three processes
follow each other: the first makes the namespaces, the second is the first process of the new pid namespace and enforces
the wall-clock limit, the third limits itself and becomes the command. Whatever the command leaves behind ends with the
second. How the command ended is written to the pipe ``request["report"]`` as a dictionary of Python, which is
``{"failed": sentence}`` where a measure fails. As each compilation and each launch starts it, it imports little.
"""

from __future__ import annotations

import ctypes
import marshal
import os
import resource
import signal
import struct
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

    Request = dict[str, Any]

LIBC = ctypes.CDLL(None, use_errno=True)

NEW_NAMESPACES = {"user": 0x10000000, "mount": 0x20000, "uts": 0x4000000, "ipc": 0x8000000, "pid": 0x20000000}
NEW_NETWORK = 0x40000000
ALL_NEW = sum(NEW_NAMESPACES.values()) | NEW_NETWORK | 0x2000000  # the last: cgroup
MS_BIND, MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV, MNT_DETACH = 0x1000, 0x4000, 0x40000, 2, 4, 2
READ_ONLY, NO_SUID, NO_DEVICES, RECURSIVE, AT_FDCWD = 1, 2, 4, 0x8000, -100
PARENT_DEATH, NO_NEW_PRIVILEGES, DROP_BOUND, SET_SECCOMP = 1, 38, 24, 22
INSIDE = 65534
"""The user and group that the command sees itself as: without capabilities once it runs."""

# Numbers of system calls: x86-64, AArch64. None: the machine has no such call.
MACHINES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
DENIED: dict[str, tuple[int, int | None]] = {
    "socket": (41, 198), "socketpair": (53, 199), "ptrace": (101, 117), "setsid": (112, 157), "setpgid": (109, 154),
    "kill": (62, 129), "tkill": (200, 130), "tgkill": (234, 131), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240), "pidfd_send_signal": (424, 424), "mount": (165, 40), "umount2": (166, 39),
    "open_tree": (428, 428), "move_mount": (429, 429), "fsopen": (430, 430), "mount_setattr": (442, 442),
    "pivot_root": (155, 41), "chroot": (161, 51), "unshare": (272, 97), "setns": (308, 268), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425), "add_key": (248, 217),
    "request_key": (249, 218), "keyctl": (250, 219), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "kexec_load": (246, 104), "init_module": (175, 105), "finit_module": (313, 273), "open_by_handle_at": (304, 265),
    "mknod": (133, None), "mknodat": (259, 33), "mq_open": (240, 180), "msgget": (68, 186), "semget": (64, 190),
    "shmget": (29, 194), "memfd_create": (319, 279),
}  # fmt: skip
FORKS: dict[str, tuple[int, int | None]] = {"fork": (57, None), "vfork": (58, None)}
NEW_THREAD = 0x10000
CLONE, CLONE3, EXECVE, EXECVEAT = (56, 220), (435, 435), (59, 221), (322, 281)
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
ALLOW, KILL, NOT_PERMITTED, NO_SUCH_CALL = 0x7FFF0000, 0x80000000, 0x50001, 0x50026


def checked(result: int, what: str) -> int:
    """Return the result of a call to the system.

    Raises:
        OSError: it is negative; the message says what was tried.
    """
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def call(name: str, *arguments: Any, what: str = "") -> int:
    """Call a function of the C library."""
    given = [argument.encode() if isinstance(argument, str) else argument for argument in arguments]
    return checked(getattr(LIBC, name)(*given), what or name)


def system_call(number: int, *arguments: Any, what: str) -> int:
    """Make a system call for which the C library has no function."""
    given = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return checked(LIBC.syscall(ctypes.c_long(number), *given), what)


def numbers_of(table: Mapping[str, tuple[int, int | None]]) -> list[int]:
    """Return the numbers that the system calls of a table have on this machine."""
    place, _ = MACHINES[os.uname().machine]
    numbers = [both[place] for both in table.values()]
    return [number for number in numbers if number is not None]


def enter_namespaces() -> None:
    """Give this process namespaces of its own, in which it is one user and the network has nothing."""
    user, group = os.getuid(), os.getgid()
    flags = sum(NEW_NAMESPACES.values()) | NEW_NETWORK
    call("unshare", flags)
    for name, content in (
        ("setgroups", "deny"), ("uid_map", f"{INSIDE} {user} 1"), ("gid_map", f"{INSIDE} {group} 1"),
    ):  # fmt: skip
        with open(f"/proc/self/{name}", "w") as file:
            file.write(content)


def change_root(root: str, readable: Iterable[str], writable: str | None) -> None:
    """Make an empty folder the root, in which only what is readable or writable can be seen."""
    call("mount", None, "/", None, MS_REC | MS_PRIVATE, None)
    call("mount", "tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, "size=1m,mode=755")
    links: dict[str, str] = {}
    shown = set()
    for path in readable:
        shown.add(followed(path, links))
    last = ""
    for path in sorted(shown):
        # What lies in a folder that is shown already is seen there.
        if not last or not path.startswith(last.rstrip("/") + "/"):
            show(path, root, READ_ONLY)
            last = path
    if writable:
        show(writable, root, 0)
    for path, target in links.items():
        if not os.path.lexists(root + path):
            os.makedirs(os.path.dirname(root + path), exist_ok=True)
            os.symlink(target, root + path)
    set_attributes(root, READ_ONLY | NO_SUID | NO_DEVICES, 0)
    os.chdir(root)
    pivot_root = (155, 41)[MACHINES[os.uname().machine][0]]
    system_call(pivot_root, b".", b".", what="pivot_root")
    call("umount2", ".", MNT_DETACH)
    os.chdir("/")


def followed(path: str, links: dict[str, str]) -> str:
    """Return the path behind symbolic links, and add the links on the way with their targets."""
    done, left = "/", path.strip("/").split("/")
    while left:
        part = left.pop(0)
        place = os.path.join(done, part)
        if part == "..":
            done = os.path.dirname(done)
        elif os.path.islink(place):
            links[place] = os.readlink(place)
            done = "/" if links[place].startswith("/") else done
            left = [*links[place].strip("/").split("/"), *left]
        else:
            done = place
    return done


def show(path: str, root: str, read_only: int) -> None:
    """Show a file or folder at its own place below a new root."""
    place = root + path
    if os.path.isdir(path):
        os.makedirs(place, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(place), exist_ok=True)
        os.close(os.open(place, os.O_CREAT))
    call("mount", path, place, None, MS_BIND | MS_REC, None, what=f"mount {path}")
    set_attributes(place, read_only | NO_SUID | NO_DEVICES, RECURSIVE)


def set_attributes(place: str, attributes: int, flags: int) -> None:
    """Set attributes of a mount and, if asked, of those below it; that needs Linux 5.12."""
    wanted = struct.pack("QQQQ", attributes, 0, 0, 0)
    system_call(442, AT_FDCWD, place.encode(), flags, wanted, len(wanted), what="mount_setattr")


def restrict_files(readable: Iterable[str], writable: str | None) -> None:
    """Have Landlock deny every file but these, and TCP, abstract sockets and signals to others where it can."""
    version = system_call(444, None, 0, 1, what="landlock")
    rights = (1 << (13, 14, 15, 15, 16)[min(version, 5) - 1]) - 1
    attributes = struct.pack("QQQ", rights, 3, 3)[: 8 if version < 4 else 16 if version < 6 else 24]
    ruleset = system_call(444, attributes, len(attributes), 0, what="landlock")
    execute, write, read, read_folder, truncate, devices = 1, 2, 4, 8, 1 << 14, 1 << 15
    granted = [(path, execute | read | read_folder) for path in readable]
    granted += [(writable, rights & ~execute & ~devices)] if writable else []
    for path, allowed in granted:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
        of_files = rights if os.path.isdir(path) else execute | write | read | truncate
        rule = struct.pack("=Qi", allowed & rights & of_files, folder)
        system_call(445, ruleset, 1, rule, 0, what=f"landlock {path}")
        os.close(folder)
    system_call(446, ruleset, 0, what="landlock")
    os.close(ruleset)


def restrict_calls(several: bool, threads: bool, program: int) -> None:
    """Deny system calls: signals, sockets, what reaches other processes and, to a single process, forks and exec.

    A single process may start ``threads`` or not; ``program`` is the address of the path that it executes once: any
    other ends it.
    """
    place, architecture = MACHINES[os.uname().machine]
    rules = [(LOAD, 0, 0, 4), (EQUAL, 1, 0, architecture), (RETURN, 0, 0, KILL), (LOAD, 0, 0, 0)]
    # Calls of the x32 interface have other numbers.
    rules += [(AT_LEAST, 0, 1, 0x40000000), (RETURN, 0, 0, KILL)]
    for number in numbers_of(DENIED) + ([] if several else numbers_of(FORKS)):
        rules += [(EQUAL, 0, 1, number), (RETURN, 0, 0, NOT_PERMITTED)]
    # Its flags lie in memory, which a filter cannot read; the C library falls back to clone.
    rules += [(EQUAL, 0, 1, CLONE3[place]), (RETURN, 0, 0, NO_SUCH_CALL)]
    if several:
        rules += [(EQUAL, 0, 3, CLONE[place]), (LOAD, 0, 0, 16)]
        rules += [(ANY_BIT, 0, 1, ALL_NEW), (RETURN, 0, 0, NOT_PERMITTED)]
    else:
        rules += [(EQUAL, 0, 3 + threads, CLONE[place]), (LOAD, 0, 0, 16)]
        rules += [(ANY_BIT, threads, 0, NEW_THREAD), (RETURN, 0, 0, NOT_PERMITTED)]
        rules += [(RETURN, 0, 0, ALLOW)] * threads
        rules += [(EQUAL, 0, 1, EXECVEAT[place]), (RETURN, 0, 0, KILL), (EQUAL, 0, 5, EXECVE[place])]
        rules += [(LOAD, 0, 0, 16), (EQUAL, 0, 2, program & 0xFFFFFFFF), (LOAD, 0, 0, 20)]
        rules += [(EQUAL, 1, 0, program >> 32), (RETURN, 0, 0, KILL)]
    rules += [(RETURN, 0, 0, ALLOW)]
    filters = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    listing = struct.pack("HxxxxxxP", len(rules), ctypes.addressof(filters))
    call("prctl", SET_SECCOMP, 2, listing, 0, 0, what="seccomp")


def limit(request: Request) -> None:
    """Limit time, memory, files and, where they can be counted apart from the user's others, processes."""
    seconds = int(request["seconds"]) + 1
    limits = {
        resource.RLIMIT_CPU: seconds, resource.RLIMIT_AS: request["memory_bytes"], resource.RLIMIT_NOFILE: 256,
        resource.RLIMIT_FSIZE: request["file_bytes"], resource.RLIMIT_CORE: 0, resource.RLIMIT_MEMLOCK: 0,
    }  # fmt: skip
    if "namespaces" in request["measures"] and request["several"]:
        limits[resource.RLIMIT_NPROC] = request["processes"]
    elif "namespaces" in request["measures"] and request["threads"] > 1:
        limits[resource.RLIMIT_NPROC] = request["threads"]
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def become(request: Request) -> None:
    """Confine this process, and execute the command; returns only where there is none, in a probe."""
    measures, command = request["measures"], request["command"]
    if command:
        os.chdir(request["writable"] or "/")
    for capability in range(64):
        # Of root without a user namespace; nobody else has any, and may not ask.
        LIBC.prctl(DROP_BOUND, capability, 0, 0, 0)
    call("prctl", NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    call("prctl", PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
    path = ctypes.create_string_buffer((command or [""])[0].encode())
    arguments = (ctypes.c_char_p * (len(command) + 1))(*[word.encode() for word in command], None)
    environment = (ctypes.c_char_p * 2)(f"TMPDIR={request['writable']}".encode() if request["writable"] else None, None)
    if "landlock" in measures:
        restrict_files(request["readable"], request["writable"])
    limit(request)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    if "seccomp" in measures:
        restrict_calls(request["several"], request["threads"] > 1, ctypes.addressof(path))
    if command:
        call("execve", path, arguments, environment, what=f"execute {command[0]}")


def supervise(request: Request) -> dict[str, int | bool | None]:
    """Run the command as a child of this process until it ends or its time is over; return how it ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    end = time.monotonic() + request["seconds"]
    child = os.fork()
    if child == 0:
        # A group of its own, which the command cannot leave: it may not call setsid.
        os.setpgid(0, 0)
        attempt(request, become)
        os._exit(0)
    over = False
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        left = end - time.monotonic()
        if ended or left <= 0:
            break
        signal.sigtimedwait([signal.SIGCHLD], left)
    if not ended:
        over = True
        kill_group(child)
        _, status = os.waitpid(child, 0)
    kill_group(child)
    killed = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    return {"exit_code": None if killed else os.WEXITSTATUS(status), "signal": killed, "over": over}


def kill_group(leader: int) -> None:
    """End all processes of a group, which may have ended."""
    try:
        os.killpg(leader, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def attempt(request: Request, step: Callable[[Request], None]) -> None:
    """Take a step; where it fails, report the reason and end this process."""
    try:
        step(request)
    except OSError as error:
        report(request, {"failed": error.strerror or str(error)})
        os._exit(1)


def report(request: Request, facts: Mapping[str, str | int | bool | None]) -> None:
    """Write how the command ended, or what failed."""
    os.write(request["report"], f"{facts!r}\n".encode())


def run(request: Request) -> None:
    """Do what the first process of the namespace does: change the root, and supervise the command."""
    call("prctl", PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
    if "namespaces" in request["measures"]:
        change_root(request["root"], request["readable"], request["writable"])
    report(request, supervise(request))


def main() -> None:
    """Do what the request asks for."""
    request = marshal.loads(bytes.fromhex(sys.argv[1]))
    os.set_inheritable(request["report"], False)
    os.umask(0o077)
    if "namespaces" not in request["measures"]:
        attempt(request, run)
        return
    call("prctl", PARENT_DEATH, int(signal.SIGKILL), 0, 0, 0)
    attempt(request, lambda _: enter_namespaces())
    first = os.fork()
    if first == 0:
        attempt(request, run)
        os._exit(0)
    os.waitpid(first, 0)
