"""The Dask workers of a run: what each says of itself makes it a device, or speaks against it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any

from gravbench.errors import InputError, listed
from gravbench.model.device import Device


@dataclass(slots=True)
class Member:
    """A Dask worker: its address, the host that it is on, its device; and why it is lost once it is."""

    address: str
    host: str
    device: Device
    lost: str | None = None
    inboxes: dict[int, SimpleQueue[object]] = field(default_factory=dict)


def members(introductions: Mapping[str, Mapping[str, Any]], own: Mapping[str, str]) -> list[Member]:
    """Make members of what Dask workers say of themselves, by their addresses; ``own`` is ``same_needed`` here.

    Raises:
        InputError: one has other versions, or two of them would measure on the same GPU.
    """
    found: list[Member] = []
    numbers: dict[tuple[str, str], int] = defaultdict(int)
    by_uuid: dict[str, str] = {}
    for address, said_of in sorted(introductions.items()):
        host, there = said_of["host"], said_of["same"]
        differing = [
            f"{name} {there.get(name, 'none')} where {own.get(name, 'none')} is here"
            for name in dict.fromkeys([*own, *there])
            if there.get(name) != own.get(name)
        ]
        if differing:
            raise InputError(
                f"the Dask worker {address} on {host} has {listed(differing)}; accepted: the same versions"
            )
        device = Device(**said_of["device"])
        if device.uuid:
            if other := by_uuid.get(device.uuid):
                raise InputError(
                    f"the Dask workers {other} and {address} would measure on the same GPU, {device.uuid}; start one "
                    "worker per GPU, each with its own CUDA_VISIBLE_DEVICES"
                )
            by_uuid[device.uuid] = address
        kind = device.selector.partition(":")[0]
        selector = f"{host}:{kind}:{numbers[host, kind]}"
        numbers[host, kind] += 1
        found.append(Member(address, host, replace(device, selector=selector)))
    return found
