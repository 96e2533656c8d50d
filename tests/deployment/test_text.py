"""What can be wrong in a cluster file is told in one sentence with file, line and name."""

from __future__ import annotations

import pytest

from australis.deployment.cluster import ClientPlace, Cluster, NodePlace, Tls
from australis.deployment.cluster_file import load
from australis.kernel.errors import Place, UserError
from australis.protocols.dpc.options import DpcOptions

FILE = "my.yaml"
HEAD = """\
cluster: c
diagram: d.yaml
replicas: {f: [a]}
sources: {s: a}
"""
"""Only the nodes are missing; what follows begins in line 5."""
WHOLE = HEAD + 'nodes:\n  a: {address: "localhost:7101"}\n'
"""What follows begins in line 7."""


def tells(text: str, line: int | None, *words: str) -> None:
    with pytest.raises(UserError) as caught:
        load(text, FILE)
    said = str(caught.value)
    place = FILE if line is None else f"{FILE}:{line}"
    assert said.startswith(f"{place}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said, said


# --- the file ----------------------------------------------------------------

WHOLE_FILES = {
    "empty": ("", None, ["the file is empty"]),
    "a list": ("- a\n", 1, ["the file should be names with settings"]),
    "not closed": (WHOLE + "tls: {ca: x\n", 8, ["not YAML"]),
    "nested for ever": ("[" * 10_000, 1, ["nested too deeply"]),
    "unknown section": (WHOLE + "node:\n", 7, ["'node' is not a section of a cluster", "nodes,"]),
    "section twice": (WHOLE + "nodes:\n", 7, ["'nodes' is defined twice (first in line 5)"]),
    "no nodes": (HEAD, None, ["has no section 'nodes'"]),
    "no name": (WHOLE.replace("cluster: c\n", ""), None, ["has no section 'cluster'"]),
    "empty name": (WHOLE.replace(": c\n", ":\n"), 1, ["is not a name"]),
    "name is a path": (WHOLE.replace(": c\n", ": c/d\n"), 1, ["'c/d' is not a name"]),
    "no diagram": (WHOLE.replace(" d.yaml", ""), 2, ["'diagram' should be text, not None"]),
    "diagram is a list": (WHOLE.replace("d.yaml", "[d]"), 2, ["'diagram' should be text"]),
}  # fmt: skip


@pytest.mark.parametrize(("text", "line", "words"), WHOLE_FILES.values(), ids=WHOLE_FILES)
def test_mistakes_of_the_file(text: str, line: int | None, words: list[str]) -> None:
    tells(text, line, *words)


# --- sections ----------------------------------------------------------------

SECTIONS = {
    "state": ("state: 5", 7, ["'state' should be text, not 5"]),
    "delay": ("max_delay: soon", 7, ["'max_delay' is not a duration: 'soon'"]),
    "delay without unit": ("max_delay: 3", 7, ["'max_delay' is not a duration: '3'"]),
    "no delay": ("max_delay: 0 s", 7, ["'max_delay' should be longer than nothing"]),
    "hop": ("hop: [1 s]", 7, ["'hop' is not a duration"]),
    "heartbeat": ("heartbeat: 0 ms", 7, ["'heartbeat' should be longer than nothing"]),
    "epoch no time": ("epoch: soon", 7, ["'epoch' should be a time such as", "'soon'"]),
    "epoch a number": ("epoch: 20261115", 7, ["'epoch' should be a time such as", "20261115"]),
    "epoch of nothing": ("epoch:", 7, ["'epoch' should be a time such as", "not None"]),
    "epoch no day": ("epoch: 2026-02-30T00:00:00Z", 7, ["'epoch' should be a time such as"]),
    "early epoch": ("epoch: 1970-01-01", 7, ["'epoch' should be a time after 1970"]),
    "first epoch": ("epoch: 0001-01-01T00:00:00+14:00", 7, ["'epoch'", "after 1970"]),
    "last epoch": ("epoch: 9999-12-31T00:00:00-14:00", 7, ["'epoch'", "a stream can carry"]),
    "policies": ("policies: fast", 7, ["'policies' should be"]),
    "unknown policy": (
        "policies: {up_failure: wait}", 7,
        ["'policies' has a setting 'up_failure' that should be 'process' or 'delay' or 'suspend', not 'wait'"],
    ),
    "nothing to correct": (
        "policies:\n  up_failure: suspend\n  stabilization: process", 9,
        ["'policies' has 'stabilization' without effect", "nothing is tentative"],
    ),
    "nobody takes turns": (
        "policies:\n  staggered: true\n  up_failure: suspend", 8, ["'policies' has 'staggered' without"],
    ),
    "log a word": ("log: 2 GB", 7, ["'log' should be names with settings"]),
    "size of logs": ("log: {max: 2 g}", 7, ["'log' has a setting 'max' that should be a size such as 2 GB"]),
    "no buckets": ("log: {max: 0 buckets}", 7, ["'log' has a setting 'max'", "'0 buckets'"]),
    "keep of logs": ("log: {keep: 3}", 7, ["'log' has a setting 'keep'", "'3'"]),
    "full what": ("log: {max: 1 GB, full: drop}", 7, ["'full' that should be 'wait' or 'skip', not 'drop'"]),
    "never full": (
        "log:\n  keep: 1 h\n  full: skip", 9, ["'log' has 'full' without effect: without 'max'"],
    ),
    "never full either": (
        "log:\n  streams:\n    r: {full: skip}", 8, ["'log' has 'streams.r.full' without effect"],
    ),
    "lease of nobody": ("leases: {guests: 1 d}", 7, ["'leases' has an unknown setting 'guests'"]),
    "lease of nothing": ("leases: {clients: 0 s}", 7, ["'clients' that should be longer than nothing"]),
    "results": ("results: [high]", 7, ["'results' should be names"]),
    "delay of a result": ("results: {r: {max_delay: 3}}", 7, ["'r' has a setting 'max_delay'", "'3'"]),
    "never and late": (
        "results:\n  r:\n    tentative: never\n    max_delay: 3 s", 10,
        ["'r' has a 'max_delay' without effect: its results are never tentative"],
    ),
    "three at once": ("clients: {me: {stream: r, hedge: 3}}", 7, ["'me' has a setting 'hedge'", "1 or 2"]),
    "faults": ("faults: yes", 7, ["'faults' should be 'allowed' or 'refused', not True"]),
    "faults a list": ("faults: [allowed]", 7, ["'faults' should be 'allowed' or 'refused'"]),
    "empty participants": ("participants: {}", 7, ["'participants' is empty"]),
    "participants listed": ("participants: [acme]", 7, ["'participants' should be names"]),
    "participant of nothing": ("participants:\n  acme:", 8, ["'acme' should be names with"]),
    "bad participant": ("participants: {a b: {}}", 7, ["'a b' is not a name"]),
    "setting of a participant": (
        "participants:\n  acme:\n    price: 5", 9,
        ["'acme' has an unknown setting 'price' (known: none)"],
    ),
    "tls a word": ("tls: certs", 7, ["'tls' should be names with settings"]),
    "tls without ca": ("tls: {certificates: x}", 7, ["'tls' needs 'ca'"]),
    "tls without certificates": ("tls: {ca: x}", 7, ["'tls' needs 'certificates'"]),
    "tls unknown": ("tls:\n  ca: x\n  key: y", 9, ["'tls' has an unknown setting 'key'", "ca, cert"]),
    "ca of nothing": ("tls:\n  certificates: x\n  ca: ''", 9, ["'tls'", "'ca' that should be text"]),
    "client without stream": ("clients:\n  me: {}", 8, ["'me' needs 'stream'"]),
    "client a word": ("clients:\n  me: f", 8, ["'me' should be names with settings"]),
    "client unknown": (
        "clients:\n  me:\n    stream: f\n    from: g", 10,
        ["'me' has an unknown setting 'from' (known: stream, hedge, reads)"],
    ),
    "client of a list": ("clients: {me: {stream: [f]}}", 7, ["'me'", "'stream' that should be text"]),
    "client at": ("clients: {me@home: {stream: f}}", 7, ["'me@home' is not a name"]),
    "client slash": ("clients: {me/1: {stream: f}}", 7, ["'me/1' is not a name"]),
    "client space": ("clients: {me too: {stream: f}}", 7, ["'me too' is not a name"]),
    "client is a source": (
        "clients:\n  S: {stream: f}", 8, ["'S' has a name that is taken: a source has it already"],
    ),
    "client in other case": (
        "clients:\n  me: {stream: f}\n  Me: {stream: f}", 9, ["'Me'", "a client has it already"],
    ),
    "client twice": ("clients:\n  me: {stream: f}\n  me: {}", 9, ["'me' is defined twice", "line 8"]),
}  # fmt: skip


@pytest.mark.parametrize(("section", "line", "words"), SECTIONS.values(), ids=SECTIONS)
def test_mistakes_of_sections(section: str, line: int, words: list[str]) -> None:
    tells(f"{WHOLE}{section}\n", line, *words)


PLACED = {
    "no replicas": ("replicas: {}\nsources: {s: a}", 3, ["'replicas' is empty"]),
    "one replica": ("replicas:\n  f: a\nsources: {s: a}", 4, ["'f' should be a list of nodes, not 'a'"]),
    "on no node": ("replicas:\n  f: []\nsources: {s: a}", 4, ["'f' should be a list of nodes"]),
    "number": ("replicas:\n  f: [5]\nsources: {s: a}", 4, ["'f' should be text, not 5"]),
    "unknown node": (
        "replicas:\n  f: [a, x]\nsources: {s: a}", 4, ["'f' names an unknown node 'x' (known: a)"],
    ),
    "close node": ("replicas: {f: [aa]}\nsources: {s: a}", 3, ["'f'", "'aa' (did you mean 'a'?)"]),
    "twice on a node": ("replicas: {f: [a, a]}\nsources: {s: a}", 3, ["'f' is placed on 'a' twice"]),
    "bad fragment": ("replicas: {f@a: [a]}\nsources: {s: a}", 3, ["'f@a' is not a name"]),
    "fragment twice": ("replicas:\n  f: [a]\n  f: [a]\nsources: {s: a}", 5, ["'f' is defined twice"]),
    "source of nothing": ("replicas: {f: [a]}\nsources:\n  s:", 5, ["'s' should be a node, or 'node' and 'standby', not None"]),
    "source twice": ("replicas: {f: [a]}\nsources:\n  s: [a]", 5, ["'s' should be a node, or 'node' and 'standby', not ['a']"]),
    "source lost": ("replicas: {f: [a]}\nsources:\n  s: x", 5, ["'s' names an unknown node 'x'"]),
}  # fmt: skip


@pytest.mark.parametrize(("placed", "line", "words"), PLACED.values(), ids=PLACED)
def test_mistakes_of_what_is_placed(placed: str, line: int, words: list[str]) -> None:
    node = 'nodes: {a: {address: "localhost:7101"}}'
    tells(f"cluster: c\ndiagram: d\n{placed}\n{node}\n", line, *words)


STANDBYS = {
    "no node": ("{standby: b}", ["'s' needs 'node'"]),
    "unknown": ("{node: a, standby: x}", ["'s' names an unknown node 'x' (known: a, b, c)"]),
    "on its own node": ("{node: a, standby: a}", ["'s' is placed on 'a' twice"]),
    "witness of nothing": ("{node: a, witness: b}", ["'s' has a 'witness' without effect"]),
    "no judge of its own": ("{node: a, standby: b, witness: b}", ["'s' is placed on 'b' twice"]),
    "misspelt": ("{node: a, stand_by: b}", ["'s' has an unknown setting 'stand_by'"]),
}
THREE = """\
cluster: c
diagram: d
replicas: {f: [a]}
nodes:
  a: {address: "localhost:7101"}
  b: {address: "localhost:7102"}
  c: {address: "localhost:7103"}
sources:
"""


@pytest.mark.parametrize(("said", "words"), STANDBYS.values(), ids=STANDBYS)
def test_mistakes_of_standbys(said: str, words: list[str]) -> None:
    tells(f"{THREE}  s: {said}\n", 9, *words)


def test_two_nodes_are_too_few_for_a_standby() -> None:
    two = THREE.replace('  c: {address: "localhost:7103"}\n', "")
    tells(f"{two}  s: {{node: a, standby: b}}\n", 8, "'s' has a standby", "no third node")


def test_a_source_with_a_standby_has_two_machines_and_a_witness() -> None:
    cluster = load(f"{THREE}  s: {{node: b, standby: c}}\n  t: a\n", FILE)
    assert cluster.sources == {"s": "b", "t": "a"}
    assert cluster.source_machines == {"s": {"s@b": "b", "s@c": "c"}, "t": {"t": "a"}}
    assert cluster.witnesses == {"witness s": "a"}
    assert [cluster.sources_on(node) for node in "abc"] == [["t"], ["s"], ["s"]]


# --- nodes -------------------------------------------------------------------

NODES = {
    "none": ("", 5, ["'nodes' should be names"]),
    "no address": ("a: {}", 6, ["'a' needs 'address'"]),
    "a word": ("a: localhost:7101", 6, ["'a' should be names with settings"]),
    "bad name": ("a.b: {address: 'localhost:1'}", 6, ["'a.b' is not a name"]),
    "name in other case": (
        "a: {address: 'localhost:1'}\n  A: {address: 'localhost:2'}", 7,
        ["'A' has a name that is taken: a node has it already"],
    ),
    "unknown setting": (
        "a:\n    address: localhost:1\n    sprak: x", 8,
        ["'a' has an unknown setting 'sprak' (known: address, spark, engine, memory, owner, metrics,"],
    ),
    "engine": (
        "a:\n    address: localhost:1\n    engine: flink", 8,
        ["'a' has a setting 'engine' that should be 'spark' or 'reference', not 'flink'"],
    ),
    "memory of no size": (
        "a:\n    address: localhost:1\n    memory: much", 8,
        ["'a' has a setting 'memory' that should be 512m or more, such as 1g, not 'much'"],
    ),
    "too little memory": (
        "a:\n    address: localhost:1\n    memory: 511m", 8, ["'memory'", "not '511m'"],
    ),
    "metrics at an address": (
        "a:\n    address: localhost:1\n    metrics: localhost:9101", 8,
        ["'a' has a setting 'metrics' that should be a port from 1 to 65535, not 'localhost:9101'"],
    ),
    "metrics at no port": (
        "a:\n    address: localhost:1\n    metrics: 0", 8, ["'metrics'", "1 to 65535, not 0"],
    ),
    "metrics at a high port": (
        "a:\n    address: localhost:1\n    metrics: 65536", 8, ["'metrics'", "not 65536"],
    ),
    "metrics switched on": (
        "a:\n    address: localhost:1\n    metrics: true", 8, ["'metrics'", "a port", "not True"],
    ),
    "metrics where it listens": (
        "a: {address: 'localhost:9101', metrics: 9101}", 6,
        ["'a' has the port 9101 for its metrics, but 'a' listens there"],
    ),
    "metrics where another listens": (
        "a: {address: '[::1]:1', metrics: 2}\n  b: {address: '127.0.0.1:2'}", 6,
        ["'a' has the port 2 for its metrics, but 'b' listens there"],
    ),
    "metrics twice": (
        "a: {address: 'localhost:1', metrics: 9}\n  b: {address: '[::1]:1', metrics: 9}", 7,
        ["'b' has the port 9 for its metrics, but 'a' has it for its own"],
    ),
    "trace": (
        "a:\n    address: localhost:1\n    trace: all", 8,
        ["'a' has a setting 'trace' that should be true or false, not 'all'"],
    ),
    "master": ("a:\n    address: localhost:1\n    spark:", 8, ["'a'", "'spark' that should be text"]),
    "bad owner": (
        "a: {address: 'localhost:1', owner: a b}", 6, ["'a' has an owner 'a b', which is not a name"],
    ),
    "owner": (
        "a: {address: 'localhost:1', owner: acm}\nparticipants: {acme: {}}", 6,
        ["'a' has an owner 'acm' who is no participant (did you mean 'acme'?)"],
    ),
    "one address": (
        "a: {address: '127.0.0.1:1'}\n  b: {address: '127.0.0.1:1'}", 7,
        ["'b' has the address '127.0.0.1:1', which 'a' has already"],
    ),
    "one address by two names": (
        "a: {address: '127.0.0.1:1'}\n  b: {address: 'Localhost:1'}", 7,
        ["'b' has the address 'localhost:1', which 'a' has already"],
    ),
    "one address in two forms": (
        "a: {address: '[::1]:1'}\n  b: {address: '[0:0::1]:1'}", 7, ["'b'", "'[::1]:1'", "'a'"],
    ),
    "far away": (
        "a: {address: '10.0.0.5:7101'}", 6,
        ["'a' has the address '10.0.0.5:7101'", "without 'tls' only loopback addresses"],
    ),
    "far away by name": ("a: {address: 'host.acme.org:1'}", 6, ["'a'", "without 'tls'"]),
    "far away in IPv6": ("a: {address: '[fe80::1]:1'}", 6, ["'[fe80::1]:1'", "without 'tls'"]),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "line", "words"), NODES.values(), ids=NODES)
def test_mistakes_of_nodes(nodes: str, line: int, words: list[str]) -> None:
    tells(f"{HEAD}nodes:\n  {nodes}\n", line, *words)


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("7101", "should be text, not 7101"),
        ("localhost", "is not host:port: 'localhost'"),
        ("':7101'", "is not host:port"),
        ("'localhost:'", "is not host:port"),
        ("'localhost:http'", "is not host:port"),
        ("'localhost:-1'", "is not host:port"),
        ("'local host:1'", "is not host:port"),
        ("'a/b:1'", "is not host:port"),
        ("'::1:7101'", "is not host:port"),
        ("'[::x]:7101'", "is not host:port: '[::x]:7101'"),
        ("'[127.0.0.1]:7101'", "is not host:port"),
        ("'localhost:0'", "has a port that is not one of 1 to 65535: 'localhost:0'"),
        ("'localhost:65536'", "has a port that is not one of 1 to 65535"),
        ("'0.0.0.0:7101'", "is everywhere, so other nodes could not find it: '0.0.0.0:7101'"),
        ("'[::]:7101'", "is everywhere"),
    ],
)
def test_addresses_that_are_refused(address: str, sentence: str) -> None:
    text = f"{HEAD}nodes:\n  a:\n    owner: acme\n    address: {address}\n"
    tells(text, 8, f"'a' has a setting 'address' that {sentence}")


@pytest.mark.parametrize(
    ("address", "host", "again"),
    [
        ("127.0.0.1:7101", "127.0.0.1", "127.0.0.1:7101"),
        ("127.8.0.1:7101", "127.8.0.1", "127.8.0.1:7101"),
        ("LocalHost:7101", "localhost", "localhost:7101"),
        ("[0:0::1]:7101", "::1", "[::1]:7101"),
    ],
)
def test_loopback_needs_no_tls(address: str, host: str, again: str) -> None:
    node = load(f"{HEAD}nodes: {{a: {{address: '{address}'}}}}", FILE).nodes["a"]
    assert (node.host, node.port, node.address) == (host, 7101, again)


@pytest.mark.parametrize("address", ["10.0.0.5:7101", "host.acme.org:7101", "[fe80::1]:7101"])
def test_with_tls_nodes_may_be_anywhere(address: str) -> None:
    nodes = f"nodes: {{a: {{address: '{address}'}}}}\n"
    cluster = load(f"{HEAD}{nodes}tls: {{ca: ca.pem, certificates: certs}}", FILE)
    assert cluster.nodes["a"].address == address
    assert cluster.tls is not None
    assert (cluster.tls.certificate("a"), cluster.tls.key("a")) == ("certs/a.pem", "certs/a.key")


def test_each_machine_may_serve_metrics_at_the_same_port() -> None:
    nodes = "".join(f"  {n}: {{address: 'host-{n}:1', metrics: 9101}}\n" for n in "ab")
    cluster = load(f"{HEAD}nodes:\n{nodes}tls: {{ca: ca.pem, certificates: certs}}", FILE)
    assert [node.metrics for node in cluster.nodes.values()] == [9101, 9101]


def test_on_one_machine_they_have_ports_of_their_own() -> None:
    nodes = "".join(
        f"  {n}: {{address: 'host:{i}', metrics: 9101}}\n" for i, n in enumerate("ab", 1)
    )
    text = f"{HEAD}nodes:\n{nodes}tls: {{ca: ca.pem, certificates: certs}}"
    tells(text, 7, "'b' has the port 9101 for its metrics, but 'a' has it for its own")


# --- what is read ------------------------------------------------------------


def test_a_whole_cluster() -> None:
    cluster = load(
        """
cluster: monitoring
diagram: ../network.yaml
state: state/monitoring
max_delay: 2 s
hop: 50 ms
heartbeat: 200 ms
epoch: 2026-11-15T18:00:00Z
nodes:
  a: {address: "127.0.0.1:7101", spark: "local[2]", memory: 2g, owner: acme}
  b: {address: "127.0.0.1:7102", engine: reference, metrics: 9102, trace: true}
  edge: {address: "127.0.0.1:7100"}
participants: {acme: {}, other: {}}
replicas:
  scans: [a, b]
  floods: [b]
sources: {site0: edge, site1: a}
clients:
  dashboard: {stream: alerts}
  archive: {stream: alerts}
tls: {ca: certs/ca.pem, certificates: certs}
faults: allowed
""",
        FILE,
    )
    assert cluster == Cluster(
        name="monitoring",
        diagram_path="../network.yaml",
        state="state/monitoring",
        max_delay_us=2_000_000,
        hop_us=50_000,
        heartbeat_us=200_000,
        epoch_us=1_794_765_600_000_000,
        nodes={
            "a": NodePlace("a", "127.0.0.1", 7101, master="local[2]", memory_mb=2048, owner="acme"),
            "b": NodePlace("b", "127.0.0.1", 7102, engine="reference", metrics=9102, trace=True),
            "edge": NodePlace("edge", "127.0.0.1", 7100),
        },
        replicas={"scans": ("a", "b"), "floods": ("b",)},
        sources={"site0": "edge", "site1": "a"},
        clients={
            "dashboard": ClientPlace("dashboard", "alerts"),
            "archive": ClientPlace("archive", "alerts"),
        },
        participants=("acme", "other"),
        tls=Tls("certs/ca.pem", "certs"),
        operators=("operator",),
        keepers=("a", "b", "edge"),
        faults=True,
    )
    assert cluster.machines == {"scans": ("scans@a", "scans@b"), "floods": ("floods@b",)}
    assert cluster.readers == {"dashboard": "alerts", "archive": "alerts"}
    assert cluster.place_of("max_delay") == Place(FILE, 5)
    assert cluster.place_of("nodes", "b") == Place(FILE, 11)


def test_what_may_be_left_out() -> None:
    cluster = load(WHOLE, FILE)
    assert cluster.state == ".australis/c"
    assert (cluster.clients, cluster.participants) == ({}, ())
    assert (cluster.epoch_us, cluster.tls, cluster.faults) == (None, None, False)
    node = cluster.nodes["a"]
    assert (node.master, node.engine, node.owner) == ("local[1]", "spark", None)
    assert (node.metrics, node.trace) == (None, False)
    assert cluster.place_of("clients", "me") == Place(FILE)


def test_the_delays_are_those_of_the_protocol() -> None:
    cluster, options = load(WHOLE, FILE), DpcOptions()
    assert cluster.max_delay_us == options.max_delay_us
    assert cluster.heartbeat_us == options.heartbeat_us


def test_owners_are_the_participants_unless_these_are_listed() -> None:
    nodes = "{address: 'localhost:1', owner: acme}\n  b: {address: 'localhost:2', owner: me}"
    assert load(f"{HEAD}nodes:\n  a: {nodes}\n", FILE).participants == ("acme", "me")


@pytest.mark.parametrize(
    "written",
    ["2026-11-15T18:00:00Z", "2026-11-15 18:00:00", "2026-11-15T20:00:00+02:00", "'20261115T18'"],
)
def test_an_epoch_is_in_utc_unless_it_says_otherwise(written: str) -> None:
    assert load(f"{WHOLE}epoch: {written}", FILE).epoch_us == 1_794_765_600_000_000


def test_faults_may_be_refused_in_words() -> None:
    assert not load(f"{WHOLE}faults: refused", FILE).faults
