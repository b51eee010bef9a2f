"""A thousand wrong configurations: each gives cases or one sentence."""

import random

import pytest
import yaml
from sentence import NASTY_WORDS, answered

from gravbench.config.load import load, packaged
from gravbench.config.settings import ENTRY_KEYS, SETTINGS, Config, Measure
from gravbench.measuring.plan import plan
from gravbench.model.device import Device
from gravbench.model.variant import CPU, discover

CONFIGS = 1000
PLANNED = 50
"""Cases up to which a sweep is planned too: what is left to go wrong there does not need many."""

KEYS = [*Config.model_fields, *ENTRY_KEYS, *SETTINGS, *(f"measure.{name}" for name in Measure.model_fields), "p", "q"]
CONDITIONS = [
    *("n > 0", "n", "n >", "p <= 64", "n ** n", "n" + "*n" * 240, "(" * 400, "not " * 120 + "n", "[n]" * 100),
    *("'a' * 9999999999", "'%999999999d' % n", "n / 0", "n % 0", "n in n", "n in [1, n]", "().__class__"),
    *("1" * 500, "__import__('os')", "n > 1 " * 200, "-" * 450 + "1"),
    *("lambda: 0", "n if n else n", "f'{n}'", "1e999 > n", "n == 'x'", "dtype < 3", "n\n>\n1", "\x1b[31m"),
]  # fmt: skip
BOMBS = [
    "n: " + "[" * 3000,
    "n: " + "{a: " * 3000,
    "n: " + "[" * 15 + "1" + "]" * 15,
    "n: [" + "1, " * 60_000 + "1]\nvariants: naive",
    "variants: [" + "naive, " * 3000 + "naive]\nn: 64",
    "variants: [" + "all, " * 900 + "all]\nn: 64",
    "description: " + "x" * 400_000 + "\nvariants: naive\nn: 64",
    "x" * 100_000 + ": 1",
    "# " + "x" * 600_000,
    "n: &a [*a]",
    "n: 64\nvariants: naive\nseed: " + "9" * 3000,
    "".join(f"k{i}: &k{i} [{', '.join([f'*k{i - 1}'] * 9) if i else 1}]\n" for i in range(16)),
    "".join(f"k{i}: &k{i} [{f'*k{i - 1}' if i else 1}]\n" for i in range(3000)),
    "variants: &v [" + "tiled, " * 500 + "naive]\nx: [" + "*v, " * 3000 + "*v]",
    "n: 8\nseed: &s [" + ",".join(map(str, range(5000))) + "]\nvariants:\n" + " - {variant: naive, seed: *s}\n" * 900,
    "bodies: [" + ",".join(f"no{i}.tab" for i in range(15_000)) + "]\nvariants: numpy_direct\nn: 8",
    "n: 64\nvariants:\n - {variant: tiled, toolkit: cupy, p: [" + "64, " * 150 + "64], unroll: [" + "8, " * 150 + "8]}",
    "n: 64\nvariant_folders: [/]\nvariants: naive",
    "n: 64\nvariant_folders: [/proc, /dev]\nvariants: naive",
]  # fmt: skip


def nasty(choose):
    """Make any value, mostly one that no key takes."""
    kind = choose.randrange(9)
    if kind < 4:
        return choose.choice(NASTY_WORDS)
    if kind == 4:
        return choose.choice(
            [None, True, False, 0, -1, 1, 2**31, 10**20, 0.5, -0.5, 1e-300, float("inf"), float("nan"), 3.0]
        )
    if kind == 5:
        return [nasty(choose) for _ in range(choose.randrange(4))]
    if kind == 6:
        return {choose.choice(KEYS): nasty(choose) for _ in range(choose.randrange(3))}
    if kind == 7:
        return choose.choice(CONDITIONS)
    return choose.choice([*discover(), "plummer", "float64", "step", "lee", "hermite", "leapfrog", "sample"])


def from_grammar(choose):
    """Make a configuration with the right keys, and values of which some are right."""
    data = {"n": choose.choice([64, [64, 128], 1])}
    data["variants"] = choose.choice(
        ["naive", ["tiled", "numpy_direct"], [{"variant": "tiled", "p": [64, 128]}], "all"]
    )
    for _ in range(choose.randrange(1, 4)):
        data[choose.choice(KEYS)] = nasty(choose)
    if choose.random() < 0.4:
        data["variants"] = [
            {"variant": choose.choice(["tiled", "all", nasty(choose)]), choose.choice(KEYS): nasty(choose)}
        ]
    if choose.random() < 0.2:
        data["variants"] = [{"variant": "tiled", "toolkit": "cupy", "when": choose.choice(CONDITIONS)}]
    return yaml.dump(data, Dumper=yaml.CSafeDumper, allow_unicode=choose.random() < 0.5)


def changed_value(choose, text):
    """Put a nasty value in the place of one value of a configuration, wherever it stands."""
    data = yaml.load(text, yaml.CSafeLoader)
    at = data
    while True:
        places = list(at) if isinstance(at, dict) else list(range(len(at)))
        if not places:
            break
        place = choose.choice(places)
        if not isinstance(at[place], dict | list) or choose.random() < 0.3:
            at[place] = nasty(choose)
            if isinstance(at, dict) and choose.random() < 0.2:
                at[choose.choice(KEYS)] = at.pop(place)
            break
        at = at[place]
    return yaml.dump(data, Dumper=yaml.CSafeDumper)


def changed_bytes(choose, text):
    """Damage the text of a configuration as typing errors and broken disks do."""
    content = bytearray(text.encode())
    for _ in range(choose.randrange(1, 5)):
        place = choose.randrange(len(content) + 1)
        kind = choose.randrange(5)
        if kind == 0:
            del content[place : place + choose.choice([1, 1, 5, 100])]
        elif kind == 1:
            content[place:place] = choose.choice(NASTY_WORDS).encode(errors="replace")
        elif kind == 2:
            content[place:place] = bytes(
                choose.choice(b"[]{}:,&*!|>'\"%@`#-?\t\n\0\xff\x1b ") for _ in range(choose.randrange(4))
            )
        elif kind == 3:
            other = choose.randrange(len(content) + 1)
            content[place:place] = content[other : other + choose.randrange(200)]
        else:
            content[place : place + 1] = bytes([choose.randrange(256)])
    return bytes(content)


def try_config(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="replace"))
    with answered(content):
        sweep = load(str(path))
        assert sweep.cases
        if len(sweep.cases) <= PLANNED:
            plan(sweep, [Device(CPU, "a processor")], "there is none")


@pytest.mark.parametrize("bomb", BOMBS, ids=range(len(BOMBS)))
def test_a_configuration_that_would_explode_is_answered_soon(bomb, tmp_path):
    try_config(tmp_path / "x.yaml", bomb)


@pytest.mark.slow
def test_any_damaged_configuration_gives_cases_or_one_sentence(attacks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [path.read_text("utf-8") for path in packaged().values()]
    for number in range(CONFIGS * attacks):
        choose = random.Random(f"config {number}")
        make = choose.choice([from_grammar, from_grammar, changed_value, changed_bytes])
        content = make(choose) if make is from_grammar else make(choose, choose.choice(texts))
        try_config(tmp_path / "x.yaml", content)
