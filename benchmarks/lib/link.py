"""A link of its own: the loopback of a network namespace, shaped by tc tbf."""
import os
import subprocess

from lib.programs import Failed


class Link:
    """A network namespace whose loopback carries at most `rate`; nothing for an unlimited one."""

    def __init__(self, rate):
        self.rate, self.name = rate, f"gradwire-bench-{os.getpid()}"

    def __enter__(self):
        if self.rate:
            self.ip("netns", "add", self.name)
            try:
                self.inside("ip", "link", "set", "lo", "up")
                self.inside("tc", "qdisc", "add", "dev", "lo", "root", "tbf", "rate", self.rate, "burst", "256kb",
                            "latency", "100ms")
            except Failed:
                self.__exit__()
                raise
        return self

    def __exit__(self, *_):
        if self.rate:
            subprocess.run(["ip", "netns", "del", self.name], stderr=subprocess.DEVNULL, check=False)

    def prefix(self):
        return ["ip", "netns", "exec", self.name] if self.rate else []

    def inside(self, *command):
        self.ip("netns", "exec", self.name, *command)

    @staticmethod
    def ip(*command):
        try:
            subprocess.run(["ip", *command], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            why = getattr(error, "stderr", "") or str(error)
            raise Failed(f"a limited link needs root, ip and tc: {why.strip()}") from None


def link_works(rate):
    try:
        with Link(rate):
            return ""
    except Failed as failure:
        return str(failure)
