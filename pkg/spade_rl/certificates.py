"""Certificates for mutual TLS between the services: an authority of one's own, and what it signs.

Keys are ECDSA on P-256. A service that calls no other gets a certificate that proves it as a server only, so that
whoever steals it cannot call anybody.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# Clocks differ.
SKEW = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its private key, as PEM."""

    certificate: bytes
    key: bytes


def make_authority(name: str, *, days: int) -> Pair:
    """Return a new authority that signs certificates and nothing else."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    builder = (
        _builder(subject, subject, key, days)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs=True), critical=True)
    )
    return _pair(builder.sign(key, hashes.SHA256()), key)


def issue(authority: Pair, *, name: str, hosts: Sequence[str], client: bool, days: int) -> Pair:
    """Return a certificate for a server that answers at ``hosts``, names or addresses, and may call others if ``client``."""
    signer = x509.load_pem_x509_certificate(authority.certificate)
    signing_key = serialization.load_pem_private_key(authority.key, None)
    assert isinstance(signing_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    uses = [ExtendedKeyUsageOID.SERVER_AUTH, *([ExtendedKeyUsageOID.CLIENT_AUTH] if client else [])]
    builder = (
        _builder(_name(name), signer.subject, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
        .add_extension(x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False)
    )
    return _pair(builder.sign(signing_key, hashes.SHA256()), key)


def still_good(certificate: bytes, authority: bytes, *, hosts: Sequence[str], client: bool, days: float) -> bool:
    """Return whether a certificate is of this authority, for exactly these hosts and use, and good for ``days`` more."""
    try:
        found = x509.load_pem_x509_certificate(certificate)
        found.verify_directly_issued_by(x509.load_pem_x509_certificate(authority))
        names = set(found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value)
        uses = found.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    except Exception:  # not a certificate, of another authority, or not made here: in every case to be replaced
        return False
    return (
        names == {_host(host) for host in hosts}
        and (ExtendedKeyUsageOID.CLIENT_AUTH in uses) is client
        and days_left(certificate) > days
    )


def days_left(certificate: bytes) -> float:
    """Return for how many days a certificate is still good; negative once it is over."""
    left = x509.load_pem_x509_certificate(certificate).not_valid_after_utc - datetime.now(UTC)
    return left / timedelta(days=1)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> Pair:
    pem = serialization.Encoding.PEM
    return Pair(
        certificate.public_bytes(pem),
        key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
