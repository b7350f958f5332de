"""Writes checkpoints for ever, as a training job does, and goes on when its mount has died and is back.

usage: checkpoints.py DIRECTORY JOURNAL

The journal has a line before and after every step, so that whoever killed the mount knows what was acknowledged.
SIGUSR1: pause where nothing is open; SIGUSR2: go on; SIGTERM: end after the step. A signal that came at once would interrupt a close that waits
for its commit.
"""

import errno
import os
import signal
import sys
import time

directory = sys.argv[1]
journal = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
dead = {errno.ENOTCONN, errno.ECONNABORTED, errno.EIO}


def say(*words):
    os.write(journal, (" ".join(str(word) for word in words) + "\n").encode())


def rest():
    """Pauses or ends, if that is wanted."""
    if signal.SIGUSR1 in signal.sigpending():
        signal.sigwait([signal.SIGUSR1])
        say("paused")
        signal.sigwait([signal.SIGUSR2])
        say("resumed")
    if signal.SIGTERM in signal.sigpending():
        say("ended")
        sys.exit(0)


def write(name, content, sync):
    with open(name, "wb", buffering=0) as file:
        left = memoryview(content)
        while left:
            left = left[file.write(left[:65536]) :]
        if sync:
            os.fsync(file.fileno())


def content(step):
    return b"%08d\n" % step * (1000 + step * 7919 % 20000) * (20 if step % 10 == 0 else 1)


def checkpoint(step, again):
    final = f"{directory}/step-{step}"
    write(final + ".tmp", content(step), sync=True)
    say("rename", step)
    os.rename(final + ".tmp", final)
    say("renamed", step)
    say("point", step)
    write(f"{directory}/latest", b"%d" % step, sync=False)
    say("pointed", step)
    if step > 3:
        say("remove", step - 3)
        try:
            os.remove(f"{directory}/step-{step - 3}")
        except FileNotFoundError:
            if not again:
                raise
        say("removed", step - 3)


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM])
say("started")
step, again = 1, False
while True:
    rest()
    try:
        checkpoint(step, again)
        step, again = step + 1, False
    except OSError as error:
        say("died" if error.errno in dead else "failed", step, error)
        if error.errno not in dead:
            raise
        again = True
        while True:
            rest()
            try:
                os.statvfs(directory)
                break
            except OSError:
                time.sleep(0.02)
