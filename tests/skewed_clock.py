"""A wall clock that is set back by an hour while a command runs: a small C library in front of libc's clocks."""

import subprocess
from pathlib import Path

from nvml_stub.build import compiler

SOURCE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* Set back from the moment at which the file named in SKEWED_CLOCK exists. */
static long skew(void) {
    const char *path = getenv("SKEWED_CLOCK");
    return path && access(path, F_OK) == 0 ? 3600 : 0;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    int code = real(clock, now);
    if (code == 0 && clock == CLOCK_REALTIME) now->tv_sec -= skew();
    return code;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    int code = clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return code;
}

time_t time(time_t *out) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (out) *out = exact.tv_sec;
    return exact.tv_sec;
}
"""


def skewed_clock(folder: Path) -> dict[str, str]:
    """Build the library in `folder`; return what a command's environment needs to meet it.

    The clock goes back when the file named in `SKEWED_CLOCK` appears.
    """
    source, library = folder / "skewed_clock.c", folder / "skewed_clock.so"
    source.write_text(SOURCE)
    command = [*compiler(), "-shared", "-fPIC", "-O1", "-o", str(library), str(source), "-ldl"]
    subprocess.run(command, check=True, capture_output=True)
    return {"LD_PRELOAD": str(library), "SKEWED_CLOCK": str(folder / "skewed")}
