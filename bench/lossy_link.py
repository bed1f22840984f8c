"""A slow and lossy network device, for kernels without netem: frames arrive late, or not at all.

  lossy_link.py OUTER INNER NAMESPACE DELAY_MS LOSS RATE_MBIT

creates the TAP devices OUTER, here, and INNER, in the network namespace, and forwards frames between them until killed.
"""
import fcntl
import heapq
import os
import random
import select
import struct
import subprocess
import sys
import time

TUNSETIFF, IFF_TAP, IFF_NO_PI = 0x400454CA, 0x0002, 0x1000


def open_tap(name):
    tap = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(tap, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TAP | IFF_NO_PI))
    return tap


def main():
    outer, inner, namespace = sys.argv[1:4]
    delay, loss, rate = float(sys.argv[4]) / 1e3, float(sys.argv[5]), float(sys.argv[6]) * 1e6 / 8
    taps = [open_tap(outer), open_tap(inner)]
    subprocess.check_call(["ip", "link", "set", inner, "netns", namespace])
    print("ready", flush=True)
    random.seed(1)
    waiting, free, count = [], [0.0, 0.0], 0
    while True:
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, _, to, frame = heapq.heappop(waiting)
            try:
                os.write(taps[to], frame)
            except OSError:
                pass  # the other end is down: lost
        left = waiting[0][0] - now if waiting else 1.0
        for tap in select.select(taps, [], [], max(left, 0))[0]:
            frame = os.read(tap, 65536)
            if random.random() < loss:
                continue
            to = 1 - taps.index(tap)
            free[to] = max(free[to], time.monotonic()) + len(frame) / rate
            count += 1
            heapq.heappush(waiting, (free[to] + delay, count, to, frame))


main()
