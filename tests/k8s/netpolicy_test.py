#!/usr/bin/env python3
"""NetworkPolicies as nft rules: the rendered ones of k8s/, loaded in network namespaces, let through just what the policies
say, pair by pair. Root, nft and the kernel's nf_tables are wanted for that; the texts are compared without."""
import pathlib
import shutil
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not there")
    sys.exit(0)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lib"))
import facts  # noqa: E402
import netns  # noqa: E402
import netpolicy  # noqa: E402
from cluster import Case  # noqa: E402
from podspec import Refused  # noqa: E402

JOB = (("app.kubernetes.io/name", "gradwire"), ("app.kubernetes.io/instance", "mnist"))
NODE = "10.0.0.254"
SERVE = """
import socket, sys
listening = []
for port in map(int, sys.argv[2:]):
    listening.append(socket.create_server((sys.argv[1], port), backlog=64))
print("ready", flush=True)
sys.stdin.read()
"""
REACH = """
import errno, select, socket, sys, time
waiting = {}
for word in sys.argv[1:]:
    host, port = word.split(":")
    s = socket.socket()
    s.setblocking(False)
    s.connect_ex((host, int(port)))
    waiting[s] = word
end = time.monotonic() + 1
while ready := select.select([], list(waiting), [], max(0, end - time.monotonic()))[1]:  # a last look, however late
    for s in ready:
        if s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
            print(waiting[s])
        del waiting[s]
"""


def policy(spec, namespace="team"):
    return {"metadata": {"name": "p", "namespace": namespace}, "spec": spec}


def host(last, namespace, *labels):
    return netpolicy.Host(f"10.0.0.{last}", namespace, labels)


def rendered():
    docs = []
    for name in ("network/networkpolicy.yaml",):
        docs += [doc for doc in yaml.safe_load_all((facts.ROOT / "k8s" / name).read_text()) if doc["kind"] == "NetworkPolicy"]
    for doc in docs:
        doc["metadata"]["namespace"] = "team"
    return docs


class NetpolicyTest(Case):
    HOSTS = (host(1, "team", *JOB), host(2, "team", *JOB), host(3, "team"), host(4, "monitoring"), host(5, "other", *JOB))

    def words(self, spec, host_index=0):
        text = netpolicy.ruleset([policy(spec)], self.HOSTS[host_index], self.HOSTS, NODE)
        return [line.strip() for line in text.splitlines()]

    def test_who_is_selected_by_none_is_open_and_who_is_drops_the_rest(self):
        job = {"podSelector": {"matchLabels": dict(JOB)}}
        self.assertEqual(sum("policy accept" in line for line in self.words(job, 2)), 2)
        lines = self.words(job)
        self.assertIn("type filter hook input priority 0; policy drop;", lines)
        self.assertIn("type filter hook output priority 0; policy accept;", lines)  # policyTypes: Ingress, when not said
        lines = self.words({**job, "policyTypes": ["Ingress", "Egress"], "egress": [{}]})
        self.assertEqual(sum("policy drop" in line for line in lines), 2)
        self.assertEqual(lines.count("accept"), 1)  # {}: everything

    def test_peers_are_addresses_and_ports_are_numbers(self):
        given = {"podSelector": {}, "ingress": [
            {"from": [{"podSelector": {"matchLabels": dict(JOB)}}], "ports": [{"port": 2222}]},
            {"from": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
             "ports": [{"protocol": "TCP", "port": 8000, "endPort": 8100}, {"protocol": "UDP"}]},
            {"from": [{"ipBlock": {"cidr": "192.168.0.0/16", "except": ["192.168.1.0/24"]}}]},
            {"from": [{"podSelector": {"matchLabels": {"nobody": "has"}}}]}]}
        accepted = [line for line in self.words(given) if "addr {" in line or "addr 192" in line]
        self.assertEqual(accepted, ["ip saddr { 10.0.0.1, 10.0.0.2 } tcp dport 2222 accept",
                                    "ip saddr { 10.0.0.4 } tcp dport 8000-8100 accept",
                                    "ip saddr { 10.0.0.4 } meta l4proto udp accept",
                                    "ip saddr 192.168.0.0/16 ip saddr != 192.168.1.0/24 accept"])

    def test_what_is_not_translated_is_refused(self):
        for spec, says in (({"podSelector": {}, "ingress": [{"ports": [{"port": "http"}]}]}, "by its name"),
                           ({"podSelector": {}, "ingress": [{"ports": [{"port": 1, "protocol": "SCTP"}]}]}, "'SCTP'"),
                           ({"podSelector": {}, "other": 1}, "other"),
                           ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}}, "'Gt'")):
            with self.assertRaisesRegex(Refused, says):
                self.words(spec)

    # ---- in the kernel ----

    def test_in_the_kernel_each_pair_is_as_the_policy_says(self):
        if not shutil.which("nft"):
            raise unittest.SkipTest("nft is not there (Debian: nftables)")
        net = netns.Hosts(self, 5)
        got = subprocess.run(net.command(0, "nft", "list", "ruleset"), capture_output=True, text=True)
        if got.returncode:
            raise unittest.SkipTest(f"nft does not work here: {got.stderr.strip()}")
        hosts = [netpolicy.Host(net.address(i), h.namespace, h.labels) for i, h in enumerate(self.HOSTS)]
        policies, ports, seen = rendered(), (2222, 8080, 9999), set()
        for i, one in enumerate(hosts):
            text = netpolicy.ruleset(policies, one, hosts, net.own)
            subprocess.run(net.command(i, "nft", "-f", "-"), input=text, text=True, check=True)
            server = subprocess.Popen(net.command(i, sys.executable, "-c", SERVE, one.address, *ports), text=True,
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            self.addCleanup(server.wait)
            self.addCleanup(server.stdin.close)
            self.addCleanup(server.stdout.close)
            self.assertEqual(server.stdout.readline(), "ready\n")
        asked = []
        for i, source in enumerate(hosts):  # all together: a dropped packet costs a timeout
            pairs = [(target, port) for target in hosts if target is not source for port in ports]
            asked.append((source, pairs, subprocess.Popen(
                net.command(i, sys.executable, "-c", REACH, *[f"{t.address}:{port}" for t, port in pairs]), text=True,
                stdout=subprocess.PIPE)))
        for source, pairs, process in asked:
            reached = process.communicate(timeout=60)[0].split()
            for target, port in pairs:
                allowed = netpolicy.allows(policies, source, target, "TCP", port)
                seen.add(allowed)
                self.assertEqual(f"{target.address}:{port}" in reached, allowed, (source, target, port))
        self.assertEqual(seen, {True, False})
        stranger, monitoring, ps = hosts[2], hosts[3], hosts[0]
        self.assertFalse(netpolicy.allows(policies, stranger, ps, "TCP", 2222))
        self.assertTrue(netpolicy.allows(policies, monitoring, ps, "TCP", 8080))
        self.assertTrue(netpolicy.allows(policies, hosts[1], ps, "TCP", 2222))


if __name__ == "__main__":
    unittest.main()
