"""Random questions to explain: each names kernels that can be compiled, or gets one sentence."""

import random

from sentence import NASTY_WORDS, answered

from gravbench.cli.explaining import MOST_BODIES, asked_for
from gravbench.explain.recorded_kernels import asked_of
from gravbench.model.interaction_files import find
from gravbench.model.variant import discover

QUESTIONS = 300
GRAVITY = find("gravity")
SIZES = (*range(2, 40), 1000, 4099, 20_000)
NAMES = [*discover(), *NASTY_WORDS, "gravity", "tilde"]


def test_any_question_is_about_kernels_that_can_be_compiled_or_gets_one_sentence(attacks):
    variants, taken = discover(), 0
    for number in range(QUESTIONS * attacks):
        choose = random.Random(f"question {number}")
        name = choose.choice(NAMES)
        axes = dict(variants[name].axes) if name in variants else {}
        given = [f"{axis}={choose.choice(values)}" for axis, values in axes.items() if choose.random() < 0.3]
        if choose.random() < 0.2:
            given.append(choose.choice([*NASTY_WORDS, *(f"{axis}={word}" for axis in axes for word in NASTY_WORDS)]))
        size = choose.choice(SIZES) if choose.random() < 0.9 else choose.choice([-1, 0, 1, MOST_BODIES + 1])
        dtype = choose.choice(["float32", "float32", "float64", choose.choice(NASTY_WORDS)])
        with answered((name, given, size, dtype)):
            asked = asked_for(variants, name, given, size, dtype)
            kernels = asked_of(asked.variant, asked.axes, asked.dtype, GRAVITY, asked.n)
            source = asked.variant.cuda_source(GRAVITY)
            assert kernels
            for one in kernels:
                assert f"{one.stem}(" in source
                assert one.threads is None or 1 <= one.threads <= 1024
                assert all(type(value) is int for _, value in one.constants), one.constants
            taken += 1
    assert taken > QUESTIONS * attacks / 10
