"""A Sigstore of one's own: certificate authority, two logs and a service of identities, with keys made for the test.

It answers what the library sigstore asks servers for, and the library signs and checks by it as by any other.
"""

import base64
import datetime
import hashlib
import json
import struct
import time
from types import SimpleNamespace

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from sigstore._internal.rekor.client import RekorClient
from sigstore.models import TransparencyLogEntry, TrustedRoot
from sigstore_models.trustroot import v1 as trustroot

ALICE, SERVICE = "alice@example.org", "https://accounts.google.com"
SCT_LIST = x509.ObjectIdentifier("1.3.6.1.4.1.11129.2.4.2")
ISSUER = x509.ObjectIdentifier("1.3.6.1.4.1.57264.1.1")


def public(key):
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def signed(key, content):
    return key.sign(content, ec.ECDSA(hashes.SHA256()))


def encoded(content):
    return base64.b64encode(content).decode()


def usage(*, ca):
    names = "content_commitment key_encipherment data_encipherment key_agreement crl_sign encipher_only decipher_only"
    return x509.KeyUsage(**dict.fromkeys(names.split(), False), digital_signature=not ca, key_cert_sign=ca)


class Sigstore:
    """Stands in for ``ClientTrustConfig``: the keys that are trusted, and the servers."""

    def __init__(self):
        self.authority, self.certificates, self.log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        self.began = datetime.datetime.now(datetime.UTC).replace(microsecond=0) - datetime.timedelta(minutes=1)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority of the tests")])
        self.root = (
            self._certificate(name, name, self.authority.public_key(), days=1)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage(ca=True), critical=True)
            .sign(self.authority, hashes.SHA256())
        )
        self.signing_config = SimpleNamespace(
            get_fulcio=lambda: SimpleNamespace(signing_cert=SimpleNamespace(post=self.certify)),
            get_tlogs=lambda: [Log(self.log)],
            get_tsas=list,
            get_oidc_url=lambda: "https://identities.example.org",
        )

    @property
    def trusted_root(self):
        valid = {"start": self.began.isoformat()}

        def log(key):
            known = {"rawBytes": encoded(public(key)), "keyDetails": "PKIX_ECDSA_P256_SHA_256", "validFor": valid}
            number = {"keyId": encoded(hashlib.sha256(public(key)).digest())}
            return {"baseUrl": "https://log.example", "hashAlgorithm": "SHA2_256", "publicKey": known, "logId": number}

        chain = {"certificates": [{"rawBytes": encoded(self.root.public_bytes(Encoding.DER))}]}
        names = {"organization": "tests", "commonName": "tests"}
        content = {
            "mediaType": TrustedRoot.TrustedRootType.TRUSTED_ROOT_0_1.value,
            "tlogs": [log(self.log)],
            "ctlogs": [log(self.certificates)],
            "certificateAuthorities": [
                {"subject": names, "uri": "https://ca.example", "certChain": chain, "validFor": valid}
            ],
            "timestampAuthorities": [],
        }
        return TrustedRoot(trustroot.TrustedRoot.from_json(json.dumps(content)))

    def _certificate(self, subject, issuer, key, **lasting):
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key)
            .serial_number(17)
            .not_valid_before(self.began)
            .not_valid_after(self.began + datetime.timedelta(**lasting))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
        )

    def certify(self, request, token):
        """Certify a key for the identity of a token, as Fulcio does, and put the certificate into a log."""

        def certificate(stamp):
            listed = struct.pack("!HH", len(stamp) + 2, len(stamp)) + stamp
            return (
                self._certificate(x509.Name([]), self.root.subject, request.public_key(), minutes=10)
                .add_extension(
                    x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.public_key()), critical=False
                )
                .add_extension(usage(ca=False), critical=True)
                .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
                .add_extension(x509.SubjectAlternativeName([x509.RFC822Name(token.identity)]), critical=True)
                .add_extension(x509.UnrecognizedExtension(ISSUER, token.federated_issuer.encode()), critical=False)
                .add_extension(
                    x509.UnrecognizedExtension(SCT_LIST, b"\x04" + bytes([len(listed)]) + listed), critical=False
                )
                .sign(self.authority, hashes.SHA256())
            )

        moment = int(time.time() * 1000)
        known = b"\0" + hashlib.sha256(public(self.certificates)).digest() + struct.pack("!QH", moment, 0)

        def stamp(signature):
            return known + struct.pack("!BBH", 4, 3, len(signature)) + signature

        # What is signed is the certificate without the extension in which the signature will stand.
        body = certificate(stamp(bytes(72))).tbs_precertificate_bytes
        issuer = hashlib.sha256(public(self.authority)).digest()
        entry = struct.pack("!BBQH", 0, 0, moment, 1) + issuer + len(body).to_bytes(3, "big") + body + b"\0\0"
        return SimpleNamespace(cert=certificate(stamp(signed(self.certificates, entry))), chain=[self.root])


class Log(RekorClient):
    """A log of one entry, which says that it has it."""

    def __init__(self, key):
        super().__init__("https://log.example")
        self.key = key

    def create_entry(self, request):
        body = json.dumps(request, sort_keys=True, separators=(",", ":")).encode()
        number, moment, root = hashlib.sha256(public(self.key)).digest(), int(time.time()), hashlib.sha256(b"\0" + body)
        promised = {"body": encoded(body), "integratedTime": moment, "logID": number.hex(), "logIndex": 0}
        promise = json.dumps(promised, sort_keys=True, separators=(",", ":")).encode()
        note = f"log.example\n1\n{encoded(root.digest())}\n"
        mark = encoded(number[:4] + signed(self.key, note.encode()))
        proof = {"logIndex": 0, "rootHash": root.hexdigest(), "treeSize": 1, "hashes": []}
        proof["checkpoint"] = f"{note}\n\u2014 log.example {mark}\n"
        verification = {"signedEntryTimestamp": encoded(signed(self.key, promise)), "inclusionProof": proof}
        return TransparencyLogEntry._from_v1_response({"entry": promised | {"verification": verification}})


def token(identity=ALICE):
    """What a service of identities gives to whoever it knows."""
    now = int(time.time())
    claims = {"iss": SERVICE, "aud": "sigstore", "sub": "17", "email": identity, "iat": now, "exp": now + 600}
    return jwt.encode(claims, "a key that nobody checks, of 32 bytes or more", algorithm="HS256")
