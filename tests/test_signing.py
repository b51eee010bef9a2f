"""Signatures of bundles: whose they are, of which files they are, and what is said where there is none."""

import json
import socket

import pytest
from typer.testing import CliRunner

from gravbench.cli.main import app
from gravbench.errors import InputError
from gravbench.sharing import bundle, checks, signing
from gravbench.sharing.bundle import ENDING, SIGNATURE, TREE
from gravbench.site import gathered, pages, tables
from tampering import CPU, sealed

sigstore_here = pytest.importorskip("sigstore_here")
ALICE, SERVICE = sigstore_here.ALICE, sigstore_here.SERVICE


@pytest.fixture
def sigstore(monkeypatch):
    """Let the library ask a Sigstore of the test for keys, certificates and entries of its log."""
    there = sigstore_here.Sigstore()
    trust(there, monkeypatch)
    monkeypatch.setattr("sigstore.oidc.detect_credential", sigstore_here.token)
    return there


def trust(there, monkeypatch):
    monkeypatch.setattr("sigstore.models.ClientTrustConfig.production", lambda offline=False: there)  # noqa: ARG005


@pytest.fixture(scope="module")
def files():
    """The files of a packaged run's bundle, unsigned."""
    from test_sharing import shared

    return shared(CPU)


@pytest.fixture
def signed(sigstore, files):  # noqa: ARG001 - asked by the library
    return files | {SIGNATURE: signing.signature_of(files)}


def written(files, folder):
    path = folder / f"run{ENDING}"
    path.write_bytes(bundle.packed(files))
    return path


def outcome_of(files, folder):
    return signing.check(bundle.read(written(files, folder)))


def verified(files, folder, *options):
    return CliRunner().invoke(app, ["verify", str(written(files, folder)), *options], env={"COLUMNS": "200"})


@pytest.mark.usefixtures("sigstore")
def test_a_signed_run_is_packed_and_its_signer_is_named(tmp_path):
    path, plain = tmp_path / f"signed{ENDING}", tmp_path / f"plain{ENDING}"
    for file, options in ((path, ["--sign"]), (plain, [])):
        done = CliRunner().invoke(app, ["share", CPU, "--out", str(file), *options])
        assert done.exit_code == 0, done.output
    assert bundle.root_of(bundle.read(path)) == bundle.root_of(bundle.read(plain))
    files = bundle.unpacked(path)
    assert files.keys() - bundle.unpacked(plain).keys() == {SIGNATURE}
    done = verified(files, tmp_path)
    assert done.exit_code == 0, done.output
    assert f"signed by {ALICE}, as {SERVICE} says; a signature proves who, not whether" in done.output


def test_anybody_can_check_the_text_of_the_tree_with_the_library_alone(sigstore, signed):
    from sigstore.models import Bundle
    from sigstore.verify import Verifier
    from sigstore.verify.policy import Identity

    signature = Bundle.from_json(signed[SIGNATURE])
    policy = Identity(identity=ALICE, issuer=SERVICE)
    Verifier(trusted_root=sigstore.trusted_root).verify_artifact(signed[TREE], signature, policy)


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (["--identity", ALICE], 0, f"signed by {ALICE}"),
        (["--identity", ALICE, "--issuer", SERVICE], 0, f"signed by {ALICE}"),
        (["--identity", "bob@example.org"], 3, f"not signed by bob@example.org: it is signed by {ALICE}"),
        (["--identity", ALICE, "--issuer", "https://example.org"], 3, "as https://example.org says: it is signed by"),
    ],
)
def test_an_identity_can_be_asked_for(signed, options, code, says, tmp_path):
    done = verified(signed, tmp_path, *options)
    assert done.exit_code == code, done.output
    assert says in done.output
    assert "CONSISTENT" in done.output
    answer = json.loads(verified(signed, tmp_path, "--json", *options).output)
    assert answer["signer"] == {"names": [ALICE], "issuer": SERVICE}
    assert answer["consistent"]
    assert bool(answer["other_signer"]) == bool(code)


def test_no_signature_is_no_mistake_unless_one_is_asked_for(files, tmp_path):
    done = verified(files, tmp_path)
    assert done.exit_code == 0
    assert "not signed" in done.output
    done = verified(files, tmp_path, "--identity", ALICE)
    assert done.exit_code == 3
    assert f"not signed by {ALICE}: it has no signature" in done.output


def test_a_signature_is_of_these_files_alone(signed, tmp_path):
    changed = sealed(signed | {"code/more.txt": b"more"}) | {SIGNATURE: signed[SIGNATURE]}
    answer = checks.verify(bundle.read(written(changed, tmp_path)))
    assert [name for name, outcome in answer.outcomes.items() if outcome.findings] == [signing.NAME]
    assert "no signature of these files" in answer.outcomes[signing.NAME].findings[0]
    assert answer.signer is None
    done = verified(changed, tmp_path, "--identity", ALICE)
    assert done.exit_code == 1
    assert "it has no valid signature" in done.output


def test_files_that_are_changed_below_a_signed_tree_are_not_signed(signed, tmp_path):
    outcome = outcome_of(signed | {"environment.json": signed["environment.json"] + b" "}, tmp_path)
    assert outcome.findings != []
    assert outcome.signer is None


def test_a_signature_by_keys_that_are_not_trusted_is_none(signed, tmp_path, monkeypatch):
    assert outcome_of(signed, tmp_path).findings == []
    trust(sigstore_here.Sigstore(), monkeypatch)
    assert outcome_of(signed, tmp_path).findings != []


def within(content, *path):
    for name in path:
        content = content[name]
    return content


PARTS = (
    ("messageSignature", "signature"),
    ("verificationMaterial", "certificate", "rawBytes"),
    ("verificationMaterial", "tlogEntries", 0, "canonicalizedBody"),
    ("verificationMaterial", "tlogEntries", 0, "integratedTime"),
    ("verificationMaterial", "tlogEntries", 0, "inclusionProof", "rootHash"),
    ("verificationMaterial", "tlogEntries", 0, "inclusionProof", "checkpoint", "envelope"),
)


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[-1])
@pytest.mark.parametrize("value", ["MTc=", "17", "", None, [], {}, "of another signature"])
@pytest.mark.usefixtures("sigstore")
def test_a_changed_part_of_a_signature_is_found_in_one_sentence(signed, part, value, tmp_path):
    content = json.loads(signed[SIGNATURE])
    if value == "of another signature":
        other = json.loads(signing.signature_of(signed | {"more": b""}))
        value = f"{int(within(content, *part)) + 3600}" if part[-1] == "integratedTime" else within(other, *part)
    within(content, *part[:-1])[part[-1]] = value
    outcome = outcome_of(signed | {SIGNATURE: json.dumps(content).encode()}, tmp_path)
    (sentence,) = outcome.findings
    assert "\n" not in sentence
    assert outcome.signer is None


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[" * 40_000, b"\xff\xfe", b"[1]", b"null", b'{"mediaType": "\\ud800"}']
)
def test_what_is_no_signature_is_found(signed, content, tmp_path):
    done = verified(signed | {SIGNATURE: content}, tmp_path)
    assert done.exit_code == 1
    assert "Found by signature" in done.output


def test_without_sigstore_a_signature_is_said_not_to_be_checked(signed, files, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "sigstore", None)
    done = verified(signed, tmp_path)
    assert done.exit_code == 0
    assert "pip install 'gravbench[sign]'" in done.output
    assert "not checked" in done.output
    for run in (lambda: verified(signed, tmp_path, "--identity", ALICE), lambda: share(tmp_path / "new")):
        done = run()
        assert done.exit_code != 0
        assert isinstance(done.exception, InputError)
        assert "pip install 'gravbench[sign]'" in str(done.exception)
    assert not (tmp_path / "new").exists()
    assert verified(files, tmp_path, "--identity", ALICE).exit_code == 3


def share(path):
    return CliRunner().invoke(app, ["share", CPU, "--out", str(path), "--sign"])


def unreachable(*_, **__):
    raise ConnectionError("no route to host")


@pytest.mark.parametrize("place", ["keys", "identity", "authority", "log"])
def test_without_a_network_one_sentence_says_so_and_nothing_is_written(sigstore, place, tmp_path, monkeypatch):
    if place == "keys":
        monkeypatch.setattr("sigstore.models.ClientTrustConfig.production", unreachable)
    elif place == "identity":
        monkeypatch.setattr("sigstore.oidc.detect_credential", unreachable)
    elif place == "authority":
        monkeypatch.setattr(sigstore, "certify", unreachable)
    else:
        monkeypatch.setattr(sigstore_here.Log, "create_entry", unreachable)
    before, new = tmp_path / "before", tmp_path / "folder" / "new"
    before.write_text("an older bundle")
    for path in (before, new):
        done = share(path)
        assert isinstance(done.exception, InputError)
        assert str(done.exception) == (
            "--sign: Sigstore's servers made no signature, and nothing is written: no route to host"
        )
    assert [path.name for path in tmp_path.iterdir()] == ["before"]
    assert before.read_text() == "an older bundle"


@pytest.mark.usefixtures("sigstore")
def test_without_a_terminal_nobody_is_asked(tmp_path, monkeypatch):
    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)
    done = share(tmp_path / "new")
    assert "no terminal" in str(done.exception)
    assert not (tmp_path / "new").exists()


@pytest.mark.usefixtures("sigstore")
def test_a_person_at_a_terminal_is_asked(files, tmp_path, monkeypatch):
    from sigstore.oidc import IdentityToken

    asked = []

    class Issuer:
        def __init__(self, address):
            asked.append(address)

        def identity_token(self):
            return IdentityToken(sigstore_here.token("carol@example.org"))

    monkeypatch.setattr("sigstore.oidc.detect_credential", lambda: None)
    monkeypatch.setattr("sigstore.oidc.Issuer", Issuer)
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    outcome = outcome_of(files | {SIGNATURE: signing.signature_of(files)}, tmp_path)
    assert outcome.signer.names == ("carol@example.org",)
    assert asked == ["https://identities.example.org"]


@pytest.mark.usefixtures("sigstore")
def test_the_keys_of_the_library_are_used_without_a_network(signed, tmp_path, monkeypatch, caplog):
    monkeypatch.undo()
    monkeypatch.setattr(socket.socket, "connect", unreachable)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    (sentence,) = outcome_of(signed, tmp_path).findings
    assert "by the keys of sigstore" in sentence
    assert "no route" not in sentence
    assert caplog.records == []
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    (sentence,) = outcome_of(signed, tmp_path).unchecked
    assert sentence.startswith("sigstore cannot keep its keys")


def test_options_that_need_another_are_refused(tmp_path):
    for words in (["share", CPU, "--show", "--sign"], ["verify", str(tmp_path / "x"), "--issuer", SERVICE]):
        assert isinstance(CliRunner().invoke(app, words).exception, InputError)


def test_rows_of_a_signed_bundle_say_so_and_the_site_says_by_whom(signed, files, tmp_path):
    for name, content in {"mine": signed, "none": files | {"code/more.txt": b""}}.items():
        (tmp_path / f"{name}{ENDING}").write_bytes(bundle.packed(content if name == "mine" else sealed(content)))
    known = gathered.gather(gathered.files_of([tmp_path]))
    levels = {checked.name: {checked.level(record) for record in checked.records} for checked in known.bundles}
    assert levels == {"mine": {"recomputed, signed"}, "none": {"recomputed"}}
    assert "signed" in tables.LEVELS
    index = pages.write(known, {}, tmp_path / "site")[0].read_text("utf-8")
    assert f"{ALICE}, as {SERVICE} says" in index
    assert "a signature proves who, not whether" in index
