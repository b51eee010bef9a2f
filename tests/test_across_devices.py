"""Cards of one kind judged against each other: every case on each of them, two cards at a time."""

import json
import re

import pytest

import test_compare
from conftest import consistent, flat
from gravbench.config.load import load
from gravbench.errors import InputError
from gravbench.measuring import rounds
from gravbench.measuring.plan import plan
from gravbench.measuring.queues import Queue
from gravbench.model.device import Device
from gravbench.model.runs import RecordFile
from gravbench.model.toolkits import catalogue
from gravbench.model.variant import CPU
from gravbench.report.terminal import across
from gravbench.report.terminal.across import across_json
from gravbench.verdicts.across import judge_cards
from gravbench.verdicts.compare import Verdict
from test_compare import command
from test_runner import made_up

CARDS = [Device(f"cuda:{place}", "a card", f"GPU-{place}", "600.1") for place in range(3)]
OTHER = Device("cuda:3", "another card", "GPU-9", "600.1")
SWEEP = "n: [64, 128, 256, 512]\nmeasure: {processes: 1}\nsearch: race\nvariants: [{variant: tiled, toolkit: cupy}]\n"


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Make a sweep for GPUs, whose toolkit counts as installed."""
    monkeypatch.setattr(type(catalogue()["cupy"]), "missing", None)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return load("sweep.yaml")


def test_every_case_is_measured_on_each_card_of_a_kind_and_none_takes_over_another_s(sweep):
    (_, todo), cards = rounds.plan_on_each(sweep, [*CARDS, OTHER, Device(CPU, "a processor")], None)
    assert cards == CARDS
    queue = Queue(todo.tasks, lambda task, device: task.fingerprint, each=todo.each)  # noqa: ARG005
    anchors = set()
    for card in CARDS:
        taken = []
        while found := queue.next(card):
            taken.append(found[0])
        assert {task.device for task in taken} == {card}
        assert {task.case.key for task in taken} == {case.key for case in sweep.cases}
        assert sum(not task.anchor for task in taken) == len(sweep.cases) - 1
        anchors |= {task.case.key for task in taken if task.anchor}
    assert len(anchors) == 1, "the same on each, by which cards can be compared"


@pytest.mark.parametrize(
    ("devices", "no_gpu", "said"),
    [
        ([Device(CPU, "a processor")], "no driver", "no driver"),
        ([CARDS[0], Device(CPU, "a processor")], None, "there is only one of each kind, cuda:0 (a card)"),
        ([CARDS[0], OTHER], None, "one of each kind, cuda:0 (a card), cuda:3 (another card)"),
    ],
)
def test_with_fewer_than_two_cards_of_a_kind_it_says_so_and_leaves_nothing_behind(
    devices,
    no_gpu,
    said,
    sweep,  # noqa: ARG001
    tmp_path,
    monkeypatch,
):
    from gravbench.toolkits import devices as found

    monkeypatch.setattr(found, "select", lambda *_: (devices, no_gpu))
    code, text = command("selftest", "sweep.yaml", "--across-devices")
    assert code == 2
    assert text.startswith("--across-devices needs two GPUs of one kind (the same name and driver): ")
    assert said in text
    assert not (tmp_path / "reports").exists()


def timed(task, slower):
    """Make up what a task gives: the third card is slower by a part."""
    middle = task.case.n * 1e-3 * (1 + slower * (task.fingerprint.device_uuid == "GPU-2")) * (1 + 1e-4 * task.anchor)
    samples = [middle * (1 + 1e-4 * i) for i in range(-5, 6)]
    number = 1 + task.anchor + 100 * CARDS.index(task.device)
    made = made_up(
        task, samples_seconds=samples, processes=[number] * 11, sm_clock_mhz=[1980] * 11, error_max=1e-6,
        stop_reason="interval",
    )  # fmt: skip
    return consistent(made)


@pytest.fixture
def run(sweep, tmp_path, monkeypatch):  # noqa: ARG001
    """Run the command on three made-up cards, one of them slower by a part."""
    from gravbench.toolkits import devices as found

    monkeypatch.setattr(found, "select", lambda *_: (CARDS, None))

    def measured(slower, *words):
        def work(sweep, todo, store, watcher, *_):  # noqa: ARG001
            records = [timed(task, slower) for task in todo.tasks]
            for record in records:
                store.append(record)
            return records

        monkeypatch.setattr(rounds.runner, "run", work)
        return command("selftest", "sweep.yaml", "--across-devices", "--out", str(tmp_path / f"out-{slower}"), *words)

    return measured


def test_a_card_that_is_slower_is_told_from_each_other_and_the_summary_says_how_far(run, tmp_path):
    code, text = run(0.1)
    assert code == 0
    assert len(re.findall(r"^SLOWER +tiled n=\d+ +2 over [01] +1\.100 ", text, re.MULTILINE)) == 8
    assert len(re.findall(r"^SAME +tiled n=\d+ +1 over 0 +1\.000 +0\.99\d+ to 1\.00\d+ ", text, re.MULTILINE)) == 4
    said = flat(text)
    assert "3 x a card: 12 pairs of 4 cases, threshold 2 %: 8 SLOWER, 0 FASTER, 0 UNCLEAR, 4 SAME." in said
    assert "By their medians the cards differ by up to 10 % in one case, by 10 % in the median case." in said
    assert "card 2: GPU-2" in text
    assert max(map(len, text.splitlines()[2:-1])) <= 80
    code, again = command("selftest", "--across-devices", "--from", str(tmp_path / "out-0.1"), "--json")
    (kind,) = json.loads(again)["kinds"]
    assert (code, kind["cards"], kind["counts"]["SLOWER"]) == (0, ["GPU-0", "GPU-1", "GPU-2"], 8)
    assert len(kind["comparisons"]) == 3


def test_cards_that_do_not_differ_are_the_same(run):
    code, text = run(0.0)
    assert code == 0
    assert "0 SLOWER, 0 FASTER, 0 UNCLEAR, 12 SAME" in flat(text)


def test_of_many_pairs_of_cards_the_first_are_shown_and_the_rest_is_counted(run, tmp_path, monkeypatch):
    monkeypatch.setattr(across, "MOST_ROWS", 5)
    run(0.1)
    for words, rows in (((), 5), (("--all",), 12)):
        _, text = command("selftest", "--across-devices", "--from", str(tmp_path / "out-0.1"), *words)
        assert len(re.findall("^(?:SLOWER|SAME) ", text, re.M)) == rows
        assert ("not shown: 7 more; --all shows them" in text) == (rows == 5)


def test_what_one_card_did_not_measure_is_listed_and_a_run_of_one_card_is_refused(sweep, tmp_path):
    records = [timed(task, 0.0) for task in plan(sweep, CARDS[:2], None, each=True).tasks]
    lost = next(one for one in records if not one.anchor and one.device_uuid == "GPU-1")
    store = RecordFile(tmp_path / "lost")
    for one in records:
        store.append(one if one is not lost else one.model_copy(update={"status": "failed", "reason": "of chance"}))
    code, text = command("selftest", "--across-devices", "--from", "lost")
    assert code == 0
    assert "3 pairs of 3 cases" in flat(text)
    assert "card 1 has 1 case not ok, or not ok on another card" in flat(text)
    with pytest.raises(InputError, match="no two cards of one kind"):
        judge_cards([one for one in records if one.device_uuid == "GPU-0"], 0.02)


def test_without_anchors_two_cards_are_unclear_as_two_runs_are():
    own = [test_compare.record(middle, device_uuid=uuid) for middle, uuid in ((1.0, "GPU-1"), (1.5, "GPU-2"))]
    (found,) = judge_cards(own, 0.02)
    assert found.counts[Verdict.UNCLEAR] == 1
    assert json.dumps(across_json([found]))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["quick", "--across-devices", "--pairs", "2"], "it cannot be combined with --pairs"),
        (["quick", "--across-devices", "--from", "lost"], "cannot be combined with CONFIG"),
        (["--across-devices", "--from", "nowhere"], "nowhere"),
    ],
)
def test_a_mistake_is_one_sentence(words, said):
    code, text = command("selftest", *words)
    assert code == 2
    assert said in text
