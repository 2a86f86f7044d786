"""What this computer has: the only place that asks the operating system."""

import ctypes
import os
import sys
from pathlib import Path


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
