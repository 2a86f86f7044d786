"""What this computer has: the only place that asks the operating system."""

import ctypes
import os
import platform
import re
import sys
from pathlib import Path

if sys.platform != "win32":
    import resource


def memory_bytes() -> int | None:
    """Physical memory, or None where it cannot be found out."""
    if sys.platform == "win32":
        return _windows_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def _windows_memory() -> int | None:
    size = ctypes.c_ulonglong(0)
    known = ctypes.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(size))  # type: ignore[attr-defined, unused-ignore]
    return size.value * 1024 if known else None


def memory_limit_bytes() -> int | None:
    """The memory this process may use: what the machine has, or less where a container says so."""
    total = memory_bytes()
    try:
        text = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return total
    limit = int(text) if text.isdigit() else None
    return min(x for x in (total, limit) if x is not None) if total or limit else None


def peak_memory_bytes() -> int | None:
    """The most that this process has held in memory so far, files that it reads in place included."""
    if sys.platform == "win32":
        return None
    try:  # not getrusage, which on Linux counts what held the memory before this program took its place
        return 1024 * int(re.findall(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())[0])
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on a Mac


def return_memory() -> None:
    """Give back to the system what was freed; glibc keeps it for later, and there is no later after a loading."""
    if sys.platform == "linux" and hasattr(libc := ctypes.CDLL(None), "malloc_trim"):
        libc.malloc_trim(0)


def cpu_name() -> str:
    try:
        return re.findall(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())[0].strip()
    except (OSError, IndexError):
        return platform.processor() or platform.machine()


def is_alive(pid: int) -> bool:
    """Whether a process of this computer is still there."""
    if sys.platform == "win32":
        handle = ctypes.windll.kernel32.OpenProcess(0x1000, False, pid)  # type: ignore[attr-defined, unused-ignore]
        return bool(handle)
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (PermissionError, OverflowError):
        return True
    return pid > 0
