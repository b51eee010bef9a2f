"""The signature of a bundle by Sigstore (https://docs.sigstore.dev): who made it, and nothing more.

What is signed is the text of ``tree.json``, which has the hash of every file. The signature stands in the archive and
outside the tree, so that the root is the same with and without it. A check makes the text anew from the files that are
there: of other files it is no signature.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gravbench.errors import InputError, shortened
from gravbench.sharing.bundle import SIGNATURE, TREE, Bundle, with_tree
from gravbench.sharing.outcome import Outcome, Signer

PROVES = "a signature proves who, not whether"
NO_SIGSTORE = "signatures need sigstore; install it with: pip install 'gravbench[sign]'"
UNSIGNED = "not signed"
NAME = "signature"
"""Of the check."""
NEWER_KEYS = "`sigstore plumbing update-trust-root` fetches the keys of today"
ISSUER = "1.3.6.1.4.1.57264.1.1"
"""Of a certificate, the extension with the service that vouches for its names: Fulcio's list of object identifiers."""


def signature_of(files: Mapping[str, bytes]) -> bytes:
    """Sign the files of a bundle, and return what Sigstore calls a bundle: signature, certificate and entry of its log.

    The identity is that of the surroundings, such as a workflow of GitHub, or else a browser asks for one. It becomes
    part of a public log that forgets nothing.

    Raises:
        InputError: the library sigstore is missing, nobody can be asked, or a server does not answer or refuses.
    """
    try:
        from sigstore import oidc
        from sigstore.models import ClientTrustConfig
        from sigstore.sign import SigningContext
    except ImportError:
        raise InputError(NO_SIGSTORE) from None
    try:
        config = ClientTrustConfig.production()
        ambient = oidc.detect_credential()
        if ambient is None and not sys.stdin.isatty():
            raise InputError("--sign: there is no terminal to ask for an identity, and no service here gives one")
        if ambient is None:
            token = oidc.Issuer(config.signing_config.get_oidc_url()).identity_token()
        else:
            token = oidc.IdentityToken(ambient)
        with SigningContext.from_trust_config(config).signer(token) as signer:
            return str(signer.sign_artifact(_text(files)).to_json()).encode()
    except InputError:
        raise
    except Exception as error:  # of several servers, and of the libraries that speak with them
        raise InputError(
            f"--sign: Sigstore's servers made no signature, and nothing is written: {_why(error)}"
        ) from error


def check(bundle: Bundle) -> Outcome:
    """Check the signature by the keys that the library has on this machine, and say whose it is; no network is used."""
    if SIGNATURE not in bundle.files:
        return Outcome(word=UNSIGNED)
    try:
        import sigstore
        from sigstore.models import Bundle as Signature
        from sigstore.models import ClientTrustConfig
        from sigstore.verify import Verifier
    except ImportError:
        return Outcome(unchecked=[NO_SIGSTORE], word="not checked")
    try:
        with _quiet():
            trusted = ClientTrustConfig.production(offline=True).trusted_root
    except OSError as error:
        return Outcome(unchecked=[f"sigstore cannot keep its keys: {error}"], word="not checked")
    try:
        signature = Signature.from_json(bundle.files[SIGNATURE])
        Verifier(trusted_root=trusted).verify_artifact(_text(bundle.files), signature, _Anybody())
        return Outcome(signer=_signer(signature.signing_certificate))
    except Exception as error:  # a stranger's certificate may raise whatever a parser raises
        keys = f"the keys of sigstore {sigstore.__version__} on this machine"
        return Outcome([f"{SIGNATURE}: no signature of these files by {keys}: {_why(error)}; {NEWER_KEYS}"])


def other_than(outcome: Outcome, identity: str, issuer: str | None) -> str:
    """Say how a checked signature is not by this identity, or not vouched for by this issuer; empty where it is.

    Raises:
        InputError: there is a signature that cannot be checked here.
    """
    signer = outcome.signer
    if outcome.unchecked:
        raise InputError(f"--identity {identity}: {outcome.unchecked[0]}")
    if signer is None:
        return f"{UNSIGNED} by {identity}: it has no {'valid ' if outcome.findings else ''}signature"
    if identity not in signer.names or issuer not in (None, signer.issuer):
        return f"{UNSIGNED} by {identity}{f', as {issuer} says' if issuer else ''}: it is signed by {signer}"
    return ""


def _text(files: Mapping[str, bytes]) -> bytes:
    """Return what is signed: ``tree.json`` as it has to be for these files."""
    return with_tree(files)[TREE]


class _Anybody:
    """What the library asks about a certificate: whose it is, is read from it afterwards."""

    def verify(self, cert: Any) -> None:
        """Accept it."""


def _signer(certificate: Any) -> Signer:
    """Read whose certificate it is.

    Raises:
        ExtensionNotFound: it does not say.
    """
    from cryptography import x509

    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    issuer = certificate.extensions.get_extension_for_oid(x509.ObjectIdentifier(ISSUER)).value
    texts = [*names.get_values_for_type(x509.RFC822Name), *names.get_values_for_type(x509.UniformResourceIdentifier)]
    texts += [other.value.decode() for other in names.get_values_for_type(x509.OtherName)]
    return Signer(tuple(texts), issuer.value.decode())


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the library from warning that keys which were not fetched anew are used: that is what is wanted."""
    logger = logging.getLogger("sigstore")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def _why(error: BaseException) -> str:
    """Return what an error and its cause say, on one line."""
    causes = [str(each).strip() or type(each).__name__ for each in (error, error.__cause__) if each is not None]
    return shortened(" ".join(": ".join(dict.fromkeys(causes)).split()), 200)
