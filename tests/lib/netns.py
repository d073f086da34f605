"""Hosts of a test's own: network namespaces on a bridge, each with an address, and remote shells to them.

All of it is named after the test's process and removed when the test ends, and what a killed test left is removed by
the next one. A machine where this is not to be had skips the test, saying why."""
import os
import pathlib
import socket
import stat
import subprocess
import sys
import threading
import unittest

RSH = pathlib.Path(__file__).resolve().parent / "rsh.py"
RSH_PORT = 2222
ETH_P_ALL = 3


def ip(*words, check=True):
    return subprocess.run(["ip", *map(str, words)], capture_output=True, text=True, check=check)


def sweep():
    """Removes what tests left that are no more."""
    for line in ip("netns", "list", check=False).stdout.splitlines():
        words = line.split()[0].split("-")
        if words[0] == "gwt" and len(words) == 3 and not pathlib.Path(f"/proc/{words[1]}").exists():
            ip("netns", "delete", line.split()[0], check=False)
    for line in ip("-o", "link", "show", "type", "bridge", check=False).stdout.splitlines():
        name = line.split(":")[1].strip()
        if name.startswith("gwt") and not pathlib.Path(f"/proc/{name[3:]}").exists():
            ip("link", "delete", name, check=False)


class Hosts:
    """n hosts: address(0) .. address(n - 1); this process is on the bridge with them, as self.own."""

    made = False

    def __init__(self, case, n):
        if os.geteuid() != 0:
            raise unittest.SkipTest("network namespaces need root")
        self.case, self.n, self.pid = case, n, os.getpid()
        self.net = f"10.{64 + self.pid % 128}.{self.pid // 128 % 256}"
        self.own, self.bridge = f"{self.net}.254", f"gwt{self.pid}"
        try:
            sweep()
        except (FileNotFoundError, IndexError) as why:
            raise unittest.SkipTest(f"ip(8) does not do it: {why}")
        case.addCleanup(self.remove)
        try:
            ip("link", "add", self.bridge, "type", "bridge")
            ip("addr", "add", f"{self.own}/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            for i in range(n):
                self.add(i)
            Hosts.made = True
        except (FileNotFoundError, subprocess.CalledProcessError) as why:
            if Hosts.made:  # namespaces work here: this is a fault of the test's
                raise
            said = (getattr(why, "stderr", "") or str(why)).strip()
            raise unittest.SkipTest(f"no network namespaces here: {said}")

    def add(self, i):
        name, link = self.name(i), self.link(i)
        ip("netns", "add", name)
        ip("link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", name)
        ip("link", "set", link, "master", self.bridge, "up")
        ip("-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
        ip("-n", name, "link", "set", "eth0", "up")
        ip("-n", name, "link", "set", "lo", "up")

    def remove(self):
        for i in range(self.n):
            for pid in ip("netns", "pids", self.name(i), check=False).stdout.split():
                try:
                    os.kill(int(pid), 9)
                except ProcessLookupError:
                    pass
            ip("link", "delete", self.link(i), check=False)  # now: a namespace may go later
            ip("netns", "delete", self.name(i), check=False)
        ip("link", "delete", self.bridge, check=False)

    def name(self, i):
        return f"gwt-{self.pid}-{i + 1}"

    def link(self, i):
        return f"gwt{self.pid}v{i + 1}"

    def address(self, i):
        return f"{self.net}.{i + 1}"

    def cut(self, i):
        ip("link", "set", self.link(i), "down")

    def mend(self, i):
        ip("link", "set", self.link(i), "up")

    def separate(self, i, j):
        """Host i sends nothing to host j any more; the others reach both."""
        ip("-n", self.name(i), "route", "add", "blackhole", f"{self.address(j)}/32")

    def join(self, i, j):
        ip("-n", self.name(i), "route", "delete", "blackhole", f"{self.address(j)}/32")

    def pids(self, i):
        return [int(pid) for pid in ip("netns", "pids", self.name(i)).stdout.split()]

    def command(self, i, *words):
        return ["ip", "netns", "exec", self.name(i), *map(str, words)]

    def record(self, i, wanted):
        """Listens to what goes to and from host i: the TCP payloads that `wanted` takes, as they come."""
        return Recording(self.case, self.link(i), wanted)

    # ---- remote shells: RSH HOST COMMAND ----

    def script(self, name, text):
        path = self.case.tmp / name
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return path

    def rsh(self, name="rsh", before=""):
        """A shell in the namespace: it does not go over the network. `before` is run first, with the address in $1."""
        return self.script(name, f'{before}\nexec ip netns exec "gwt-{self.pid}-${{1##*.}}" sh -c "$2"\n')

    def rsh_by_tcp(self):
        """A shell that goes over the network, as ssh does."""
        for i in range(self.n):
            server = subprocess.Popen(self.command(i, sys.executable, RSH, "serve", self.address(i), RSH_PORT),
                                      stdout=subprocess.PIPE)
            self.case.addCleanup(server.wait)
            self.case.addCleanup(server.kill)
            self.case.addCleanup(server.stdout.close)
            self.case.assertEqual(server.stdout.readline(), b"ready\n")
        return self.script("rsh-tcp", f'exec {sys.executable} {RSH} connect "$1" {RSH_PORT} "$2"\n')


class Recording(threading.Thread):
    def __init__(self, case, link, wanted):
        super().__init__(daemon=True)
        self.wanted, self.got, self.over = wanted, [], False
        # Without a protocol the socket hears nothing before it is bound; with one it would hear all links until then.
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.bind((link, ETH_P_ALL))
        self.socket.settimeout(0.1)
        self.start()
        case.addCleanup(self.stop)

    def run(self):
        while not self.over:
            try:
                packet = self.socket.recv(1 << 16)[14:]
            except TimeoutError:
                continue
            except OSError:
                return
            if packet[:1] == b"E" and packet[9] == 6:  # IPv4 without options, TCP
                payload = packet[20 + (packet[32] >> 4) * 4:int.from_bytes(packet[2:4], "big")]
                if self.wanted(payload):
                    self.got.append(payload)

    def stop(self):
        self.over = True
        self.join()
        self.socket.close()
