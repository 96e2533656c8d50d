"""Certificates between nodes: what is made, what a node refuses, and mutual TLS."""

from __future__ import annotations

import ipaddress
import shutil
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID

from australis.kernel.errors import UserError
from australis.runtime.certs import (
    AUTHORITY_DAYS,
    SKEW,
    Credentials,
    Did,
    check_name,
    issue,
    load,
)
from australis.runtime.files import TEMPORARY
from australis.runtime.listener import Connection, Listener

LONG_AGO = datetime.now(UTC) - timedelta(days=800)


def make(directory: Path, *names: str, **how: Any) -> dict[str, Did]:
    issued = issue(directory, dict.fromkeys(names, ()), **how)
    return {name: one.did for name, one in issued.items()}


def credentials(directory: Path, name: str, now: datetime | None = None) -> Credentials:
    return load(directory, directory / "ca.pem", name, now)


def certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def refused(call: Callable[[], object]) -> str:
    with pytest.raises(UserError) as error:
        call()
    return str(error.value)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    directory = tmp_path / "certs"
    make(directory, "n1", "n2")
    return directory


# --- what is made ------------------------------------------------------------------------


def test_what_stands_in_a_certificate(tmp_path: Path) -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    issued = issue(tmp_path, {"n1": (), "n2": ("10.0.0.5", "::1", "two.example.org", "n2")}, days=7)
    assert issued["n1"].hosts == ("127.0.0.1", "localhost")
    assert issued["n2"].hosts == ("10.0.0.5", "::1", "two.example.org")
    found = certificate(tmp_path / "n2.pem")
    assert found.subject.rfc4514_string() == "CN=n2"
    names = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert list(names) == [
        x509.DNSName("n2"),
        x509.IPAddress(ipaddress.ip_address("10.0.0.5")),
        x509.IPAddress(ipaddress.ip_address("::1")),
        x509.DNSName("two.example.org"),
    ]
    usage = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert set(usage) == {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH}
    assert not found.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = found.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert key.curve.name == "secp256r1"
    assert before - SKEW <= found.not_valid_before_utc <= datetime.now(UTC) - SKEW
    assert found.not_valid_after_utc - found.not_valid_before_utc == timedelta(days=7) + SKEW
    authority = certificate(tmp_path / "ca.pem")
    assert authority.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    lasts = authority.not_valid_after_utc - authority.not_valid_before_utc
    assert lasts == timedelta(days=AUTHORITY_DAYS) + SKEW
    serials = {certificate(path).serial_number for path in tmp_path.glob("*.pem")}
    assert len(serials) == 3
    assert min(serials) > 1 << 64


def test_only_the_owner_reads_keys(home: Path) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in home.iterdir()}
    assert {name for name, mode in modes.items() if mode == 0o600} == {"ca.key", "n1.key", "n2.key"}
    assert {"ca.pem", "n1.pem", "n2.pem"} == {name for name in modes if name.endswith(".pem")}
    assert len(modes) == 6


def test_what_exists_is_kept(home: Path) -> None:
    before = {path: path.read_bytes() for path in home.iterdir()}
    assert make(home, "n1", "n3") == {"ca": Did.KEPT, "n1": Did.KEPT, "n3": Did.MADE}
    assert {path: path.read_bytes() for path in before} == before
    assert credentials(home, "n3").ca_pem == credentials(home, "n1").ca_pem


def test_renewing_replaces_pair_and_keeps_hosts(home: Path) -> None:
    issue(home, {"n3": ("10.0.0.5",)})
    old = credentials(home, "n3")
    issued = issue(home, {"n3": ()}, renew=True)
    assert {name: one.did for name, one in issued.items()} == {"ca": Did.KEPT, "n3": Did.RENEWED}
    assert issued["n3"].hosts == ("10.0.0.5",)
    new = credentials(home, "n3")
    assert new.certificate_pem != old.certificate_pem
    assert new.key_pem != old.key_pem
    assert issue(home, {"n3": ("10.0.0.6",)}, renew=True)["n3"].hosts == ("10.0.0.6",)
    assert make(home, "n4", renew=True)["n4"] is Did.MADE


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    late = datetime.now(UTC) - timedelta(days=AUTHORITY_DAYS - 100)
    make(tmp_path, "n1", now=late)
    issued = issue(tmp_path, {"n2": ()})
    assert issued["n2"].until == issued["ca"].until < datetime.now(UTC) + timedelta(days=101)


def test_an_attempt_that_a_crash_interrupted_is_finished(home: Path) -> None:
    (home / f"n3.key{TEMPORARY}").write_bytes(b"half of a key")
    (home / "n2.pem").unlink()
    key = (home / "n2.key").read_bytes()
    (home / "n2.key").chmod(0o644)
    make(home, "n2", "n3")
    assert credentials(home, "n2").key_pem == key
    assert (home / "n2.key").stat().st_mode & 0o777 == 0o600
    assert credentials(home, "n3").name == "n3"
    assert not list(home.glob(f"*{TEMPORARY}"))
    shutil.copy(home / "n2.key", home / "n1.key")
    assert "is not the key of" in refused(lambda: make(home, "n1"))
    make(home, "n1", renew=True)
    credentials(home, "n1")


def test_two_at_once_make_one_authority(tmp_path: Path) -> None:
    names = [f"n{i}" for i in range(6)]
    threads = [threading.Thread(target=make, args=(tmp_path, name)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({credentials(tmp_path, name).ca_pem for name in names}) == 1


@pytest.mark.parametrize(
    "name", ["", "-n", "_n", "a/b", "..", "a.b", "a b", "ä", "n\n", "a" * 64, "ca", "Localhost"]
)
def test_names_no_node_may_have(tmp_path: Path, name: str) -> None:
    for call in (lambda: check_name(name), lambda: make(tmp_path / "certs", name)):
        assert refused(call).startswith(" ".join(f"'{name}' is not ".splitlines()))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "host", ["", "10.0.0.500", "10.0.0.5:9000", "*.example.org", "a b", "a..b", "grpc://n1"]
)
def test_hosts_that_are_none(tmp_path: Path, host: str) -> None:
    said = refused(lambda: issue(tmp_path, {"n1": (host,)}))
    assert said == f"'{host}' is neither an IP address nor the name of a host"


def test_no_node_can_pass_for_another(home: Path) -> None:
    sentence = "'n2' is the name of another node, not a host of 'n3'"
    assert refused(lambda: issue(home, {"n3": ("n2",)})) == sentence
    assert refused(lambda: issue(home / "new", {"n3": ("n2",), "n2": ()})) == sentence
    issue(home, {"n3": ("beta",)})
    said = refused(lambda: make(home, "Beta"))
    assert said == "'beta' is the name of another node, not a host of 'n3'"
    assert "in case only" in refused(lambda: make(home, "N1"))


def test_a_host_that_a_kept_certificate_lacks(home: Path) -> None:
    issue(home, {"n1": ("localhost",)})
    said = refused(lambda: issue(home, {"n1": ("10.0.0.5",), "n3": ()}))
    assert said == "'n1' has a certificate without 10.0.0.5; make another with --renew"
    assert not (home / "n3.pem").exists()


def test_directories_and_authorities_that_cannot_be_used(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert refused(lambda: make(file, "n1")) == f"'{file}' cannot be written: Not a directory"
    assert "cannot be written" in refused(lambda: make(file / "certs", "n1"))
    (home / "ca.key").unlink()
    said = refused(lambda: make(home, "n3"))
    assert said == f"'{home}/ca.key' does not exist; see `australis certs --help`"
    for end in ("pem", "key"):
        shutil.copy(home / f"n2.{end}", home / f"ca.{end}")
    said = refused(lambda: make(home, "n3"))
    assert said == f"'{home}/ca.pem' is not the certificate of an authority"
    make(tmp_path / "old", "n1", now=LONG_AGO - timedelta(days=AUTHORITY_DAYS))
    said = refused(lambda: make(tmp_path / "old", "n3"))
    assert "ca.pem' expired at" in said
    assert "make an authority in another directory" in said


# --- what a node refuses -----------------------------------------------------------------


def test_loading(home: Path) -> None:
    found = credentials(home, "n1")
    assert found.name == "n1"
    assert found.certificate_pem == (home / "n1.pem").read_bytes()
    assert found.ca_pem == (home / "ca.pem").read_bytes()
    assert found.key_pem == (home / "n1.key").read_bytes()
    assert "PRIVATE" not in repr(found)


@pytest.mark.parametrize("name", ["ca.pem", "n1.pem", "n1.key"])
def test_files_that_are_missing_or_damaged(home: Path, name: str) -> None:
    path = home / name
    path.write_bytes(path.read_bytes()[:100])
    assert refused(lambda: credentials(home, "n1")).startswith(f"'{path}' is not a")
    path.unlink()
    assert refused(lambda: credentials(home, "n1")).startswith(f"'{path}' does not exist; ")
    path.mkdir()
    said = refused(lambda: credentials(home, "n1"))
    assert said == f"'{path}' cannot be read: Is a directory"


def test_expired_or_not_valid_yet(tmp_path: Path) -> None:
    make(tmp_path, "n1", now=LONG_AGO)
    end = f"{LONG_AGO + timedelta(days=365):%Y-%m-%d %H:%M}"
    said = refused(lambda: credentials(tmp_path, "n1"))
    assert said == (
        f"'{tmp_path}/n1.pem' expired at {end} UTC; make another with `australis certs --renew`"
    )
    assert refused(lambda: make(tmp_path, "n1")) == said
    credentials(tmp_path, "n1", LONG_AGO - SKEW / 2)
    said = refused(lambda: credentials(tmp_path, "n1", LONG_AGO - 2 * SKEW))
    assert said.startswith(f"'{tmp_path}/ca.pem' is valid only from ")
    make(tmp_path, "n1", renew=True)
    credentials(tmp_path, "n1")


def test_another_authority(home: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", "n1")
    other = tmp_path / "other" / "ca.pem"
    said = refused(lambda: load(home, other, "n1"))
    assert said == f"'{home}/n1.pem' is not signed by {other}"


def test_the_files_of_another_node(home: Path) -> None:
    shutil.copy(home / "n2.key", home / "n1.key")
    said = refused(lambda: credentials(home, "n1"))
    assert said == f"'{home}/n1.key' is not the key of {home}/n1.pem"
    shutil.copy(home / "n2.pem", home / "n1.pem")
    said = refused(lambda: credentials(home, "n1"))
    assert said == f"'{home}/n1.pem' is the certificate of 'n2', not of 'n1'"


def test_a_key_with_a_password(home: Path) -> None:
    key = load_pem_private_key((home / "n1.key").read_bytes(), None)
    (home / "n1.key").write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    assert "without a password" in refused(lambda: credentials(home, "n1"))


# --- mutual TLS --------------------------------------------------------------------------


@contextmanager
def serving(node: Credentials) -> Iterator[int]:
    """A port that tells each caller its name."""

    def serve(connection: Connection) -> None:
        name = connection.accept(node)
        connection.socket.sendall(f"{name}\n".encode())

    listener = Listener("who", "127.0.0.1", 0, serve)
    listener.start()
    try:
        yield listener.address[1]
    finally:
        listener.stop()


def ask(port: int, mine: Credentials, node: str = "n1") -> str:
    raw = socket.create_connection(("127.0.0.1", port), 20)
    with mine.wrap(raw, node) as connection:
        mine.connect(connection, node, time.monotonic() + 20)
        return connection.makefile().readline().strip()


def test_a_node_knows_who_called(home: Path) -> None:
    issue(home, {"Node_3-b": ("10.0.0.5", "three.example.org")})
    with serving(credentials(home, "n1")) as port:
        for name in ("n2", "Node_3-b", "n1"):
            assert ask(port, credentials(home, name)) == name


def of_another_authority(home: Path, other: Path) -> Credentials:
    make(other, "n2")
    return replace(credentials(other, "n2"), ca_pem=(home / "ca.pem").read_bytes())


def expired(home: Path, other: Path) -> Credentials:
    make(home, "n3", now=LONG_AGO + timedelta(days=600), days=100)
    return credentials(home, "n3", LONG_AGO + timedelta(days=650))


def signed_by_a_node(home: Path, other: Path) -> Credentials:
    """A node that plays the authority, to pass for another."""
    make(home, "n3")
    false = credentials(home, "n3")
    key = load_pem_private_key(false.key_pem, None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    real = certificate(home / "n2.pem")
    builder = x509.CertificateBuilder(
        certificate(home / "n3.pem").subject, real.subject, key.public_key(), 1
    )
    builder = builder.not_valid_before(real.not_valid_before_utc)
    builder = builder.not_valid_after(real.not_valid_after_utc)
    forged = builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    return replace(false, certificate_pem=forged + false.certificate_pem)


@pytest.mark.parametrize("client", [of_another_authority, expired, signed_by_a_node])
def test_clients_that_are_refused(
    home: Path, tmp_path: Path, client: Callable[[Path, Path], Credentials]
) -> None:
    if client is expired:
        shutil.rmtree(home)
        make(home, "n1", now=LONG_AGO, days=2000)
    with serving(credentials(home, "n1")) as port:
        with pytest.raises(OSError, match="alert"):
            ask(port, client(home, tmp_path / "other"))
        make(home, "n4")
        assert ask(port, credentials(home, "n4")) == "n4"


def test_a_certificate_with_the_key_of_another_is_of_no_use(home: Path) -> None:
    mixed = replace(credentials(home, "n2"), key_pem=(home / "n1.key").read_bytes())
    with serving(credentials(home, "n1")) as port, pytest.raises(OSError, match="mismatch"):
        ask(port, mixed)


def test_clients_without_tls_are_refused(home: Path) -> None:
    with (
        serving(credentials(home, "n1")) as port,
        socket.create_connection(("127.0.0.1", port), 20) as connection,
        suppress(ConnectionError),
    ):
        connection.sendall(b"hello, who am I?\n" * 10)
        assert b"n" not in connection.recv(1000)


def test_servers_that_are_refused(home: Path, tmp_path: Path) -> None:
    make(tmp_path / "other", "n1")
    with (
        serving(credentials(tmp_path / "other", "n1")) as port,
        pytest.raises(OSError, match="certificate verify failed"),
    ):
        ask(port, credentials(home, "n2"))


def test_a_client_checks_whom_it_reached(home: Path) -> None:
    """By name, wherever the node runs."""
    issue(home, {"n3": ("10.0.0.5",)})
    mine = credentials(home, "n2")
    with serving(credentials(home, "n1")) as port:
        assert ask(port, mine) == "n2"
        with pytest.raises(OSError, match="not valid for 'n3'"):
            ask(port, mine, "n3")
    with serving(credentials(home, "n3")) as port:
        assert ask(port, mine, "n3") == "n2"
