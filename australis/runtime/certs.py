"""Certificates between nodes: a small authority in a directory, for mutual TLS.

`issue` makes the authority (ca.pem, ca.key) and a pair of files for each node
(NAME.pem, NAME.key); a node needs its own pair and ca.pem, and ca.key stays where
certificates are made. Nodes know each other by name, wherever they run: `Credentials` proves
one's own name, accepts one node only, or finds out who calls.

A caller is known by the first alternative name of its certificate, so
a node's name always comes first. A certificate is looked at when a connection
begins: one that expires later does not end it.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import socket
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from australis.kernel.errors import UserError
from australis.runtime.files import (
    TEMPORARY,
    make_directory,
    replace_file,
    sync_directory,
    write_all,
)
from australis.runtime.sockets import limit

AUTHORITY = "ca"
HOSTS = ("127.0.0.1", "localhost")
"""The hosts at which a node is reached by default."""
RESERVED = (AUTHORITY, "localhost")
"""The names that no node may have: the authority's file, and an address of every node."""
DAYS = 365
AUTHORITY_DAYS = 3650
SKEW = timedelta(hours=1)
"""The largest lag of a node's clock behind the machine that issues its certificate."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}")
_HOST = re.compile(r"([A-Za-z0-9_-]{1,63}\.)*(?!\d+$)[A-Za-z0-9_-]{1,63}")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The certificate and key of a node, and the authority that it trusts."""

    name: str
    ca_pem: bytes
    certificate_pem: bytes
    key_pem: bytes = field(repr=False)

    def wrap(self, connection: socket.socket, node: str | None) -> socket.socket:
        """The connection with TLS, to a node, or at one (None); nothing is sent yet."""
        at_node = node is None
        context = _context(self.ca_pem, self.certificate_pem, self.key_pem, at_node)
        return context.wrap_socket(
            connection,
            server_side=at_node,
            server_hostname=node,
            do_handshake_on_connect=False,
        )

    def connect(self, connection: socket.socket, node: str, deadline: float) -> None:
        """Show one's certificate to a node, which has to show its own."""
        self._shake_hands(connection, deadline)

    def accept(self, connection: socket.socket, deadline: float) -> str | None:
        """Find out who calls, from the certificate that the caller proves to own."""
        self._shake_hands(connection, deadline)
        assert isinstance(connection, ssl.SSLSocket)
        return caller(connection)

    @staticmethod
    def _shake_hands(connection: socket.socket, deadline: float) -> None:
        assert isinstance(connection, ssl.SSLSocket)
        limit(connection, deadline)
        connection.do_handshake()


@lru_cache(maxsize=8)
def _context(
    ca_pem: bytes, certificate_pem: bytes, key_pem: bytes, at_node: bool
) -> ssl.SSLContext:
    """The settings of TLS: both ends have to show a certificate of this authority."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if at_node else ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(cadata=ca_pem.decode())
    # The library reads certificate and key from a file only: this one is in memory.
    fd = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        write_all(fd, certificate_pem + b"\n" + key_pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context


class Did(StrEnum):
    """The outcome of `issue` for one certificate."""

    MADE = "made"
    KEPT = "kept"
    RENEWED = "renewed"


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate in the directory, and whether it is new."""

    path: Path
    did: Did
    hosts: tuple[str, ...]
    until: datetime


# --- for a node --------------------------------------------------------------------------


def load(directory: Path, ca: Path, name: str, now: datetime | None = None) -> Credentials:
    """The credentials of a node; a `UserError` if other nodes would refuse them."""
    now = now or datetime.now(UTC)
    path, key_path = _files(directory, check_name(name))
    ca_pem, certificate_pem, key_pem = _read(ca), _read(path), _read(key_path)
    authority, certificate = _parse(ca_pem, str(ca)), _parse(certificate_pem, str(path))
    _check_authority(authority, ca, now)
    found = _common_name(certificate, str(path))
    if found != name:
        raise UserError(f"is the certificate of '{found}', not of '{name}'", name=str(path))
    if _alternatives(certificate)[:1] != (name,):
        raise UserError(f"does not have '{name}' as first alternative name", name=str(path))
    if not _signed_by(certificate, authority):
        raise UserError(f"is not signed by {ca}", name=str(path))
    _check_time(certificate, path, now, "make another with `australis certs --renew`")
    _check_key(_parse_key(key_pem, key_path), key_path, certificate, path)
    return Credentials(name, ca_pem, certificate_pem, key_pem)


def caller(connection: ssl.SSLSocket) -> str:
    """The name of the other end of a connection, from its certificate."""
    certificate = connection.getpeercert() or {}
    names = certificate.get("subjectAltName", ())
    assert names, "the authority of a cluster gives every certificate a name"
    return str(names[0][1])


# --- making them -------------------------------------------------------------------------


def issue(
    directory: Path,
    nodes: Mapping[str, Sequence[str]],
    days: int = DAYS,
    renew: bool = False,
    now: datetime | None = None,
) -> dict[str, Issued]:
    """Issue missing certificates for nodes with their hosts, after that of the authority.

    A certificate that exists is kept, or with `renew` replaced together with its key.
    Without hosts a node keeps those that it had, or gets `HOSTS`.
    """
    wanted = {check_name(name): tuple(map(_check_host, hosts)) for name, hosts in nodes.items()}
    now = now or datetime.now(UTC)
    with _alone_in(directory):
        old = {
            path.stem: _alternatives(_read_certificate(path))[1:]
            for path in sorted(directory.glob("*.pem"))
            if path.stem != AUTHORITY
        }
        for name in () if renew else wanted.keys() & old.keys():
            _check_kept(directory, name, wanted[name], old[name], now)
        reached = {name: hosts or old.get(name, HOSTS) for name, hosts in wanted.items()}
        _check_apart(old | reached)
        authority = _Authority(directory, now)
        issued = {AUTHORITY: authority.issued}
        for name, hosts in reached.items():
            did = Did.MADE if name not in old else Did.RENEWED if renew else Did.KEPT
            issued[name] = authority.certify(name, hosts, days, did)
        return issued


def check_name(name: str) -> str:
    """Check a node's name, which names files, and a host in certificates; returns it."""
    if not _NAME.fullmatch(name):
        raise UserError(
            "is not a node's name: up to 63 letters, digits, - and _, the first a letter or digit",
            name=name,
        )
    if name.lower() in RESERVED:
        raise UserError("is not free as a node's name", name=name)
    return name


def _check_host(host: str) -> str:
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        if not _HOST.fullmatch(host):
            raise UserError("is neither an IP address nor the name of a host", name=host) from None
        return host


def _check_apart(nodes: Mapping[str, Sequence[str]]) -> None:
    """Check that names differ in more than case, as for TLS, and that no host is another node."""
    names = {name.lower(): name for name in nodes}
    for name, hosts in nodes.items():
        if names[name.lower()] != name:
            raise UserError(f"differs from '{names[name.lower()]}' in case only", name=name)
        for host in hosts:
            if names.get(host.lower(), name) != name:
                raise UserError(f"is the name of another node, not a host of '{name}'", name=host)


def _check_kept(
    directory: Path, name: str, wanted: Sequence[str], old: Sequence[str], now: datetime
) -> None:
    load(directory, directory / f"{AUTHORITY}.pem", name, now)
    for host in wanted:
        if host.lower() not in {one.lower() for one in (name, *old)}:
            raise UserError(
                f"has a certificate without {host}; make another with --renew", name=name
            )


class _Authority:
    """The signing authority: opened from its directory, or created there."""

    def __init__(self, directory: Path, now: datetime) -> None:
        self._directory, self._now = directory, now
        path, key_path = _files(directory, AUTHORITY)
        did = Did.KEPT if path.exists() else Did.MADE
        if did is Did.KEPT:
            self._certificate, self._key = _read_certificate(path), _read_key(key_path)
            _check_authority(self._certificate, path, now)
            _check_key(self._key, key_path, self._certificate, path)
        else:
            self._key = _unused_key(key_path)
            self._certificate = _self_signed(self._key, now)
            replace_file(path, self._certificate.public_bytes(Encoding.PEM), private=False)
        self.issued = Issued(path, did, (), self._certificate.not_valid_after_utc)

    def certify(self, name: str, hosts: Sequence[str], days: int, did: Did) -> Issued:
        """Write the files of one node; its certificate expires no later than the authority's."""
        path, key_path = _files(self._directory, name)
        if did is Did.KEPT:
            certificate = _read_certificate(path)
        else:
            key = _new_key(key_path) if did is Did.RENEWED else _unused_key(key_path)
            until = min(self._now + timedelta(days=days), self._certificate.not_valid_after_utc)
            certificate = self._signed(key.public_key(), name, hosts, until)
            replace_file(path, certificate.public_bytes(Encoding.PEM), private=False)
        return Issued(path, did, _alternatives(certificate)[1:], certificate.not_valid_after_utc)

    def _signed(
        self, key: ec.EllipticCurvePublicKey, name: str, hosts: Sequence[str], until: datetime
    ) -> x509.Certificate:
        names = [_general(one) for one in dict.fromkeys((name, *hosts))]
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        return (
            _builder(_called(name), self._certificate.subject, key, self._now, until)
            .add_extension(x509.SubjectAlternativeName(names), False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), True)
            .add_extension(_usage(signs_certificates=False), True)
            .add_extension(x509.ExtendedKeyUsage(both), False)
            .add_extension(issuer, False)
            .sign(self._key, hashes.SHA256())
        )


def _self_signed(key: ec.EllipticCurvePrivateKey, now: datetime) -> x509.Certificate:
    subject, until = _called("Australis authority"), now + timedelta(days=AUTHORITY_DAYS)
    return (
        _builder(subject, subject, key.public_key(), now, until)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .add_extension(_usage(signs_certificates=True), True)
        .sign(key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePublicKey,
    now: datetime,
    until: datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder(issuer, subject, key, x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(until)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), False)
    )


def _called(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _general(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


# --- looking at them ---------------------------------------------------------------------


def _parse(data: bytes, what: str) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(data)
    except ValueError:
        raise UserError("is not a certificate in PEM form", name=what) from None


def _parse_key(data: bytes, path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_pem_private_key(data, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise UserError(
            "is not an elliptic-curve key in PEM form without a password", name=str(path)
        )
    return key


def _common_name(certificate: x509.Certificate, what: str) -> str:
    found = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    if not found:
        raise UserError("is a certificate without a common name", name=what)
    return str(found[0].value)


def _alternatives(certificate: x509.Certificate) -> tuple[str, ...]:
    """The alternative names in their order: the node's name, then its hosts."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return ()
    return tuple(str(name.value) for name in names)


def _signed_by(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_authority(certificate: x509.Certificate, path: Path, now: datetime) -> None:
    try:
        signs = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        signs = False
    if not signs:
        raise UserError("is not the certificate of an authority", name=str(path))
    _check_time(certificate, path, now, "make an authority in another directory")


def _check_time(certificate: x509.Certificate, path: Path, now: datetime, remedy: str) -> None:
    begin, end = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if now > end:
        raise UserError(f"expired at {end:%Y-%m-%d %H:%M} UTC; {remedy}", name=str(path))
    if now < begin:
        raise UserError(
            f"is valid only from {begin:%Y-%m-%d %H:%M} UTC; is the clock right?", name=str(path)
        )


def _check_key(
    key: ec.EllipticCurvePrivateKey, key_path: Path, certificate: x509.Certificate, path: Path
) -> None:
    if key.public_key() != certificate.public_key():
        raise UserError(f"is not the key of {path}", name=str(key_path))


# --- files -------------------------------------------------------------------------------


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Lock the directory, so that two processes do not create two authorities."""
    try:
        make_directory(directory, private=False)
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)
    except OSError as error:
        raise UserError(f"cannot be written: {error.strerror}", name=str(directory)) from None


def _files(directory: Path, name: str) -> tuple[Path, Path]:
    """The certificate of a name, and its key."""
    return directory / f"{name}.pem", directory / f"{name}.key"


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError("does not exist; see `australis certs --help`", name=str(path)) from None
    except OSError as error:
        raise UserError(f"cannot be read: {error.strerror}", name=str(path)) from None


def _read_certificate(path: Path) -> x509.Certificate:
    return _parse(_read(path), str(path))


def _read_key(path: Path) -> ec.EllipticCurvePrivateKey:
    return _parse_key(_read(path), path)


def _unused_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """A key for a certificate that does not exist yet, perhaps one that a crash left behind."""
    if not path.exists():
        return _new_key(path)
    path.chmod(0o600)
    return _read_key(path)


def _new_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Write a new key durably and atomically to a file that only its owner may read."""
    key = ec.generate_private_key(ec.SECP256R1())
    temporary = path.with_name(path.name + TEMPORARY)
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        write_all(fd, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        os.fsync(fd)
    finally:
        os.close(fd)
    os.replace(temporary, path)
    sync_directory(path.parent)
    return key
