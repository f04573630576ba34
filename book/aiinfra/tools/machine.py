"""What this machine is, in words that a record may keep: never its name."""

import os
import platform
import shutil
from pathlib import Path

GIB = 2**30


def cores() -> int:
    """Cores that this process may use: a container may have fewer than the chip."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def memory_bytes() -> int | None:
    """Main memory in bytes, or None where the system does not say."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError, AttributeError):
        return None


def disk_free_bytes(folder: Path) -> int:
    """Free space for ``folder`` in bytes."""
    return shutil.disk_usage(folder).free


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def described() -> dict[str, object]:
    """Processor, cores, memory, system and Python."""
    memory = memory_bytes()
    return {
        "processor": processor(),
        "cores": cores(),
        "memory_gib": round(memory / GIB) if memory else None,
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
    }
