"""What of a run leaves its machine, field by field: one table of rules for records, one for ``environment.json``.

A field without a rule is not shared. Cards are called by a hash of their UUID, with a salt that only the run itself
gives, so that records of one card can be told from those of another. Paths lose their folders, hosts get numbers.
"""

from __future__ import annotations

import getpass
import hashlib
import ipaddress
import json
import re
import shlex
import socket
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from gravbench.model.record import Record

UUID = re.compile(r"\b(?:(GPU|MIG)-)?[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?:/\d+)*")
"""Of a card, or of anything else."""
PATH = re.compile(
    r"""
    (?P<page> https://[^\s'"]*)
    | (?: file:// | (?<=-[ILF]) | (?<![\w.~]) ) (?:~\w* | \.{1,2})? /[^\s'",;:()\[\]<>]*
    """,
    re.VERBOSE,
)
"""An absolute path, or one that begins at the working directory or at a home; and a page, which stays as it is."""
ADDRESS = re.compile(r"\b(?:tcp|tls|ucx|wss?|http)://[^\s'\",;]*")
"""Where a process of another host listens."""
NUMERIC = re.compile(
    r"""
    (?<![\w.:])
    (?:
        (?P<four> \d{1,3} (?: \.\d{1,3} ){3} ) (?!\.?\w) (?: :\d+ )?
        | (?P<six> [0-9a-fA-F]* (?: :[0-9a-fA-F]* ){2,7} ) (?!\w)
    )
    """,
    re.VERBOSE,
)
"""What may be the numeric address of a host, with a port or without."""
HOME = re.compile(r"(?<![\w.~/])(?:/home/|/Users/|~)\w[\w.-]*/?(?![\w/.-])")
"""The home folder of a user by itself, whose last part is a name."""
SHORTEST_NAME = 3
COMMON = {"root", "localhost", "localdomain", "user"}
"""Names of hosts and users that tell nobody from others."""
HASH_DIGITS = 16


class Redaction:
    """Applies the rules for one run; ``salt`` is made of the whole run, which is not shared."""

    def __init__(self, salt: bytes) -> None:
        """Nothing has been replaced yet."""
        self._salt = salt
        self._hosts: dict[str, str] = {}
        self._names = local_names()

    def record(self, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return a record as it is shared: the fields that have a rule."""
        return {name: _applied(RECORD[name], self, value) for name, value in fields.items() if name in RECORD}

    def start(self, entry: Mapping[str, Any]) -> dict[str, Any]:
        """Return what is shared of one start of the run in ``environment.json``."""
        # First, because the hosts that they name may be named elsewhere.
        devices = self._devices(entry.get("devices"))
        shared = {name: _applied(rule, self, entry[name]) for name, rule in ENVIRONMENT.items() if name in entry}
        return shared | {"devices": devices}

    def hashed(self, text: str) -> str:
        """Replace every UUID by a salted hash, behind the word that it began with."""

        def replaced(match: re.Match[str]) -> str:
            digits = hashlib.sha256(self._salt + match[0].lower().encode()).hexdigest()[:HASH_DIGITS]
            return f"{match[1] or 'uuid'}-{digits}"

        return UUID.sub(replaced, text)

    def prose(self, text: str) -> str:
        """Replace UUIDs, the folders of paths, and the names of this host and its user."""
        text = NUMERIC.sub(_without_address, ADDRESS.sub("ADDRESS", self.hashed(text)))
        text = HOME.sub("USER", text)
        text = PATH.sub(lambda match: match["page"] or match[0].rstrip("/").rpartition("/")[2] or "/", text)
        for name, instead in self._names.items():
            text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", instead, text, flags=re.IGNORECASE)
        return text

    def file(self, text: str) -> str:
        """Leave the name of a file without its folders; a name that is none stays as it is."""
        return text.rpartition("/")[2]

    def command(self, text: str) -> str:
        """Leave of each word that has folders or an address what stands behind them."""
        try:
            words = shlex.split(text)
        except ValueError:
            return "gravbench"
        return shlex.join(map(self._word, words))

    def _word(self, word: str) -> str:
        option, equals, value = word.rpartition("=")
        if "://" in value:
            return f"{option}{equals}ADDRESS"
        return self.prose(f"{option}{equals}{self.file(value)}")

    def selector(self, text: str) -> str:
        """Number the hosts of ``HOST:cuda:0``; a selector without a host stays as it is."""
        words = text.split(":")
        # ``cuda:0`` and ``cpu`` have no host; ``HOST:cpu:0`` has the same number of words as ``HOST:cuda:0``.
        host = ":".join(words[:-2])
        return f"{self._host(host)}:{':'.join(words[-2:])}" if host else text

    def _host(self, name: str) -> str:
        number = self._hosts.setdefault(name, f"host{len(self._hosts) + 1}")
        self._names[name] = number
        return number

    def _devices(self, entries: Any) -> list[dict[str, Any]]:
        devices = entries if isinstance(entries, list) else []
        return [
            {name: _applied(rule, self, device[name]) for name, rule in DEVICE.items() if name in device}
            for device in devices
        ]


Rule = Callable[[Redaction, Any], Any]


def local_names() -> dict[str, str]:
    """Return the names of this host and its user, and what stands for each."""
    names: dict[str, str] = {}
    with suppress(OSError):
        host = socket.gethostname()
        names |= dict.fromkeys((host, host.partition(".")[0]), "HOST")
    with suppress(OSError, KeyError):
        names[getpass.getuser()] = "USER"
    with suppress(RuntimeError):
        names[Path.home().name] = "USER"
    return {name: word for name, word in names.items() if len(name) >= SHORTEST_NAME and name.lower() not in COMMON}


def _without_address(match: re.Match[str]) -> str:
    if not any(map(str.isdigit, match[0])):  # a::b is a name of C++
        return match[0]
    try:
        ipaddress.ip_address(match["four"] or match["six"])
    except ValueError:
        return match[0]
    return "ADDRESS"


def _applied(rule: Rule, redaction: Redaction, value: Any) -> Any:
    """Apply a rule to a text, or to every text in a list or mapping; numbers stay."""
    if isinstance(value, str):
        return rule(redaction, value)
    if isinstance(value, list):
        return [_applied(rule, redaction, each) for each in value]
    if isinstance(value, dict):
        return {rule(redaction, name): _applied(rule, redaction, each) for name, each in value.items()}
    return value


def KEPT(_: Redaction, text: str) -> str:  # noqa: N802 - a rule, like the others
    """Share a text as it is: a number type, a version, a name of the field."""
    return text


HASHED: Rule = Redaction.hashed
PROSE: Rule = Redaction.prose
FILE: Rule = Redaction.file

RULED: Mapping[str, Rule] = {
    "device_uuid": HASHED,
    "bodies": FILE,
    "interaction": FILE,
    "flags": PROSE,
    "toolkit_version": PROSE,
    "compiler": PROSE,
    "adapter": PROSE,
    "gpus_linked_by": PROSE,
    "counters_unavailable": PROSE,
    "reason": PROSE,
}
"""Fields of a record in which something may stand that names a machine or a person."""
_PLAIN = (
    "registers shared_bytes local_bytes threads_per_block grid_blocks blocks_per_multiprocessor occupancy "
    "occupancy_limiter waves counters stages_seconds stages_bytes computed uncounted on_host walk_overlap "
    "warp_efficiency steps_per_second energy_drift momentum_drift drift_steps damping samples_seconds processes batch "
    "median_seconds ci_low ci_high stop_reason launch_seconds sm_clock_mhz power_watts temperature_celsius "
    "throttle_reasons throttled launch_bound joules protocol error_max error_rms error_median error_p90 error_p99 "
    "error_rows error_magnitude_max error_magnitude_rms error_max_of cycle error_cycle_max error_cycle_rms "
    "bodies_sha256 compute_capability clock_resolution_seconds start_seconds compile_seconds built_ahead "
    "untimed_seconds method code_sha256 driver device variant toolkit axes n dtype subset seed eps timed integrator dt "
    "bodies_file_sha256 interaction_sha256 status anchor source_sha256 interactions_per_second gflops "
    "flops_per_interaction commit started harness_version"
)
"""Fields of a record that are shared as they are. One that is in neither table is not shared."""
RECORD: Mapping[str, Rule] = dict(RULED) | dict.fromkeys(_PLAIN.split(), KEPT)
_OF_START = "harness_version commit processor packages published sweep_sha256 shard planned sweep generated_by"
ENVIRONMENT: Mapping[str, Rule] = {
    "command": Redaction.command,
    "config": FILE,
    "operating_system": PROSE,
    "python": PROSE,
    "nvcc": PROSE,
    "environment_variables": PROSE,
    "search": PROSE,
} | dict.fromkeys(_OF_START.split(), KEPT)
"""What is shared of each start of a run, beside its devices."""
DEVICE: Mapping[str, Rule] = {"selector": Redaction.selector, "name": KEPT, "uuid": HASHED, "driver": KEPT}
"""What is shared of each device of a start."""


def without_rule() -> list[str]:
    """List the fields of a record that neither table has: they would not be shared."""
    return sorted(Record.model_fields.keys() - RECORD.keys())


def salt_of(*contents: bytes) -> bytes:
    """Make the salt of a run of its files: the same run always has the same, and nobody knows it from the bundle."""
    return hashlib.sha256(b"gravbench share\0" + b"\0".join(contents)).digest()


def line(fields: Mapping[str, Any]) -> bytes:
    """Write a record as a line of JSON, with every number as it was."""
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode(errors="replace") + b"\n"
