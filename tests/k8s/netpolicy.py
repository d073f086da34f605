"""NetworkPolicies as nft rules: pure. Kubernetes' meaning (networking/v1): who is selected by no policy of a direction is
open in it; who is, admits what one of them allows, and answers to that.

    ruleset(policies, host, hosts, node) -> text for `nft -f -` in the host's network namespace
    allows(policies, source, target, protocol, port) -> the same for one pair, computed independently: the tests' oracle"""
import dataclasses
import ipaddress

from podspec import Refused, known, one_of

NAMESPACE_NAME = "kubernetes.io/metadata.name"  # the label that every namespace has


@dataclasses.dataclass(frozen=True)
class Host:
    """A pod, or who else has an address."""
    address: str
    namespace: str
    labels: tuple  # of (name, value)

    def has(self, selector):
        return selects(selector, dict(self.labels))


OPERATORS = {
    "In": lambda has, value, values: has and value in values,
    "NotIn": lambda has, value, values: not has or value not in values,
    "Exists": lambda has, value, values: has,
    "DoesNotExist": lambda has, value, values: not has,
}


def selects(selector, labels):
    known("selector", selector, {"matchLabels", "matchExpressions"})
    for e in selector.get("matchExpressions", []):
        one_of("matchExpressions", e["operator"], *OPERATORS)
    return (all(labels.get(k) == v for k, v in selector.get("matchLabels", {}).items())
            and all(OPERATORS[e["operator"]](e["key"] in labels, labels.get(e["key"]), e.get("values", []))
                    for e in selector.get("matchExpressions", [])))


def types(policy):
    """Egress is meant only where it is said, or has rules."""
    spec = policy["spec"]
    return spec.get("policyTypes", ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def of_host(policies, host, direction):
    for policy in policies:
        known("NetworkPolicy", policy["spec"], {"podSelector", "policyTypes", "ingress", "egress"})
        if (policy["metadata"]["namespace"] == host.namespace and direction in types(policy)
                and host.has(policy["spec"]["podSelector"])):
            yield policy


def is_peer(peer, policy, host):
    known("peer", peer, {"podSelector", "namespaceSelector", "ipBlock"})
    if "ipBlock" in peer:
        block, address = peer["ipBlock"], ipaddress.ip_address(host.address)
        return (address in ipaddress.ip_network(block["cidr"])
                and not any(address in ipaddress.ip_network(no) for no in block.get("except", [])))
    if "namespaceSelector" in peer:
        there = selects(peer["namespaceSelector"], {NAMESPACE_NAME: host.namespace})
    else:
        there = host.namespace == policy["metadata"]["namespace"]
    return there and host.has(peer.get("podSelector", {}))


SIDES = {"Ingress": ("ingress", "from"), "Egress": ("egress", "to")}


def rules_of(policies, host, direction):
    """(policy, rule) of all that speak for this host; None: none does, it is open."""
    mine = list(of_host(policies, host, direction))
    key, _ = SIDES[direction]
    return [(policy, rule) for policy in mine for rule in policy["spec"].get(key, [])] if mine else None


# ---- nft ----

def ports(rule):
    """nft's words for the ports of a rule; [""]: all."""
    words = []
    for port in rule.get("ports", []):
        known("ports", port, {"protocol", "port", "endPort"})
        protocol = one_of("protocol", port.get("protocol", "TCP"), "TCP", "UDP").lower()
        if isinstance(port.get("port"), str):
            raise Refused(f"ports: {port['port']}: a port by its name is not translated")
        last = f"-{port['endPort']}" if "endPort" in port else ""
        words.append(f"{protocol} dport {port['port']}{last} " if "port" in port else f"meta l4proto {protocol} ")
    return words or [""]


def blocks(peer, side):
    block = peer["ipBlock"]
    known("ipBlock", block, {"cidr", "except"})
    no = "".join(f"ip {side} != {cidr} " for cidr in block.get("except", []))
    return f"ip {side} {block['cidr']} {no}"


def peers(policy, rule, direction, hosts):
    """nft's words for who is meant; [""]: everybody, []: nobody who is there."""
    side, given = ("saddr" if direction == "Ingress" else "daddr"), rule.get(SIDES[direction][1], [])
    words = [blocks(peer, side) for peer in given if "ipBlock" in peer]
    some = sorted({host.address for host in hosts for peer in given if "ipBlock" not in peer and is_peer(peer, policy, host)})
    if some:
        words.append(f"ip {side} {{ {', '.join(some)} }} ")
    return words if given else [""]


def chain(policies, host, hosts, direction, more):
    hook = "input" if direction == "Ingress" else "output"
    mine = rules_of(policies, host, direction)
    lines = [f"type filter hook {hook} priority 0; policy {'accept' if mine is None else 'drop'};",
             "ct state established,related accept", f"{'iif' if hook == 'input' else 'oif'} lo accept", *more]
    lines += [f"{who}{port}accept" for policy, rule in mine or [] for who in peers(policy, rule, direction, hosts)
              for port in ports(rule)]
    return f"  chain {hook} {{\n    " + "\n    ".join(lines) + "\n  }\n"


def ruleset(policies, host, hosts, node):
    """`node`: the address of the kubelet, whose probes no policy keeps out."""
    return ("table inet gradwire\ndelete table inet gradwire\ntable inet gradwire {\n"
            + chain(policies, host, hosts, "Ingress", [f"ip saddr {node} accept"])
            + chain(policies, host, hosts, "Egress", []) + "}\n")


# ---- the oracle ----

def port_is_meant(rule, protocol, port):
    for p in rule.get("ports", []):
        if p.get("protocol", "TCP") == protocol and ("port" not in p or p["port"] <= port <= p.get("endPort", p["port"])):
            return True
    return "ports" not in rule


def admits(policies, host, direction, other, protocol, port):
    mine = rules_of(policies, host, direction)
    if mine is None:
        return True
    for policy, rule in mine:
        given = rule.get(SIDES[direction][1])
        if port_is_meant(rule, protocol, port) and (not given or any(is_peer(peer, policy, other) for peer in given)):
            return True
    return False


def allows(policies, source, target, protocol, port):
    return (admits(policies, source, "Egress", target, protocol, port)
            and admits(policies, target, "Ingress", source, protocol, port))
