"""Whatever stands in the folders that are to be merged, the answer is a merged run or one sentence."""

import json
import random
import shutil

from sentence import NASTY_WORDS, answered

from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring.shards import take
from gravbench.model import merging
from gravbench.model.runs import ENVIRONMENT, RECORDS, RecordFile
from gravbench.model.shard import Shard, parse
from test_merging import TINY, measured

NASTY = [*NASTY_WORDS, None, True, -1, 0, 2**70, 1e308, [], {}, [[]], {"a": {}}, "2/2", "1/2", "3/2", "1/1", "00002/2"]
FIELDS = ["shard", "sweep_sha256", "planned", "harness_version", "config", "devices", "command", "published", "sweep",
          "search", "generated_by"]  # fmt: skip


def test_no_word_makes_a_shard_but_two_numbers(attacks):
    choose = random.Random(1)
    letters = "0123456789//// -+.\n\0e_²٣"
    for _ in range(300 * attacks):
        word = choose.choice([*map(str, NASTY_WORDS), "".join(choose.choices(letters, k=choose.randrange(1, 12)))])
        with answered(word) as said:
            shard = parse(word)
            assert 1 <= shard.number <= shard.count
        assert all("accepted: K/N" in sentence for sentence in said)


def test_whatever_an_environment_says_the_runs_are_merged_or_refused_in_a_sentence(tmp_path, monkeypatch, attacks):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(TINY)
    sweep = load("tiny.yaml")
    own = [measured(take(sweep, Shard(number, 2)), tmp_path / f"own{number}") for number in (1, 2)]
    contents = {folder: [(folder / name).read_bytes() for name in (ENVIRONMENT, RECORDS)] for folder in own}
    choose = random.Random(2)
    outcomes = set()
    for _ in range(60 * attacks):
        victim = choose.choice(own)
        entries = json.loads(contents[victim][0])
        changed = {choose.choice(FIELDS): choose.choice(NASTY) for _ in range(choose.randrange(1, 3))}
        entries[0] |= changed
        if choose.random() < 0.3:
            entries.append(json.loads(contents[victim][0])[0])
        (victim / ENVIRONMENT).write_text(json.dumps(entries))
        out = None if choose.random() < 0.3 else tmp_path / "out"
        partial = choose.random() < 0.5
        with answered([changed, partial]) as said:
            try:
                done = merging.merge(own, out, partial=partial, say=said.append)
            except InputError as error:
                outcomes.add("refused")
                said.append(str(error))
                assert out is None or not out.exists()
            else:
                outcomes.add("merged")
                assert {record.key for record in RecordFile(done.folder).read()} == {case.key for case in sweep.cases}
                assert done.folder.resolve().parent in (tmp_path, tmp_path / "reports")
                shutil.rmtree(done.folder)
        (victim / ENVIRONMENT).write_bytes(contents[victim][0])
    assert outcomes == {"merged", "refused"}
