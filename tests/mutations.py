"""Changes of the code that the tests have to notice, and a script that applies each to a copy of the checkout.

    python tests/mutations.py                 apply all; this takes half an hour
    python tests/mutations.py --only NAME     apply those whose names contain NAME; may be repeated
    python tests/mutations.py --list          name them

For each it runs the tests that are expected to notice, those of README's command first and, where these pass, those
marked slow, which ``.ci/run`` runs too. It prints ``caught`` or ``caught by a slow test`` with the test, ``survived``,
or ``not known`` where the test fails without the change too. It ends with exit code 1 unless all are caught.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PARTS = {"caught": "not slow and not corpus", "caught by a slow test": "slow"}
"""What is said where a test of a part fails, and the marker expression of the part."""
REDIRECTING = """
import sys


for name, module in list(sys.modules.items()):
    if name.startswith("__editable___gravbench"):
        for package, folder in module.MAPPING.items():
            module.MAPPING[package] = folder.replace({root!r}, {copy!r}, 1)
"""
"""Has Python find the package in the copy; Python runs it as ``sitecustomize``, after the installed finder."""


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text that occurs once in a file of the checkout, another in its place, and who should notice.

    ``tests`` are files in ``tests/``; ``words`` are an expression for pytest's ``-k`` that spares other tests in them.
    """

    name: str
    file: str
    before: str
    after: str
    tests: str
    words: str = ""


MUTATIONS = (
    # model
    Mutation(
        "rank-tail", "harness/model/statistics.py", "tail = (1 - confidence) / 2", "tail = 1 - confidence",
        "test_quantiles.py test_derived.py test_measure.py",
    ),
    Mutation(
        "effective-ignores-neighbours", "harness/model/statistics.py", "* math.sqrt(n) <= DEPENDENT",
        "* math.sqrt(n) <= 10 * DEPENDENT", "test_measure.py test_compare.py test_derived.py",
    ),
    Mutation(
        "student-without-root", "harness/model/statistics.py", "math.sqrt(variance / len(groups))",
        "math.sqrt(variance)", "test_derived.py test_compare.py test_measure.py",
    ),
    Mutation(
        "key-keeps-later-fields", "harness/model/case.py",
        "name in _FIRST or getattr(self, name, PARTS[name].usual) != PARTS[name].usual", "True",
        "test_case.py test_record.py",
    ),
    Mutation(
        "identity-without-types", "harness/model/case.py",
        "frozenset(zip(axes, axes.values(), map(type, axes.values()), strict=True))",
        "frozenset(zip(axes, axes.values(), strict=True))", "test_case.py test_record.py",
    ),
    Mutation(
        "speeds-of-n-squared", "harness/model/derived.py", "record.evaluated / record.median_seconds",
        "record.interactions / record.median_seconds", "test_derived.py test_record.py",
    ),
    Mutation(
        "errors-may-fall", "harness/model/derived.py", "less > more * (1 + ROUNDING)", "less > 2 * more",
        "test_derived.py",
    ),
    Mutation(
        "origin-not-exact", "harness/model/units.py", "abs(first) >= 2 * spread", "abs(first) >= 0 * spread",
        "test_force_units.py test_force_arrays.py",
    ),
    Mutation(
        "lost-without-masses", "harness/model/units.py", "n * tiny * (1 + distance + of_masses)",
        "n * tiny * (1 + distance)", "test_force_units.py",
    ),
    Mutation(
        "plummer-speed", "harness/model/generators.py", "random.beta(1.5, 4.5, n)", "random.beta(1.5, 4.0, n)",
        "test_generator.py test_bodies.py",
    ),
    Mutation(
        "crowd-half-as-large", "harness/model/hard_bodies.py", "crowd = int(share * n)", "crowd = int(share * n) // 2",
        "test_hard_bodies.py",
    ),
    Mutation(
        "name-keeps-what-is-usual", "harness/model/generated_bodies.py", "if given[word] != usual[word]", "if word",
        "test_hard_bodies.py",
    ),
    Mutation(
        "seeds-by-the-fastest", "harness/verdicts/seeds.py", "ordered[len(ordered) // 2]", "ordered[0]",
        "test_seeds.py",
    ),
    Mutation(
        "seeds-with-the-least-error", "harness/verdicts/seeds.py", "else max(values)", "else min(values)",
        "test_seeds.py test_winners.py",
    ),
    Mutation(
        "comments-in-hash", "harness/model/identity.py", 'and not line.lstrip().startswith("#")]', "]",
        "test_identity.py",
    ),
    Mutation(
        "merge-keeps-process-numbers", "harness/model/merging.py", "records = _numbered(sources)",
        "records = [record for source in sources for record in source.records]", "test_merging.py",
    ),
    # history, exports, site
    Mutation(
        "commits-off-the-line", "harness/asv/commits.py", '"rev-list", "--first-parent", "--reverse"',
        '"rev-list", "--reverse"', "test_history.py", "merged",
    ),
    Mutation(
        "commit-not-its-own", "harness/asv/commits.py", "commits = [commit, *(", "commits = [*(", "test_history.py",
        "changed_sources or ladder",
    ),
    Mutation(
        "headers-of-today", "harness/model/stem_code.py", "shared = built_in / SHARED.name if built_in else SHARED",
        "shared = SHARED", "test_history.py", "header",
    ),
    Mutation(
        "space-without-conditions", "harness/explain/tuning_problem.py", 'return [{"Expression"',
        'return [] and [{"Expression"', "test_tuning_problem.py",
    ),
    Mutation(
        "tuned-seconds", "harness/report/tuning_results.py", '"time": 1e3 * seconds(record) if',
        '"time": seconds(record) if', "test_tuning_problem.py",
    ),
    Mutation(
        "wrong-results-are-correct", "harness/report/tuning_results.py", '"invalid": "correctness"',
        '"invalid": "correct"', "test_export.py",
    ),
    Mutation(
        "refused-on-the-site", "harness/site/gathered.py", "        if answer.consistent:", "        if True:",
        "test_site.py",
    ),
    Mutation(
        "itself-as-repetition", "harness/site/gathered.py",
        "if other is not checked and measured.samples_seconds != record.samples_seconds:", "if other is not checked:",
        "test_site.py", "reproduced",
    ),
    Mutation(
        "partly-recompiled", "harness/sharing/code_checks.py", "if kernels and kernels <= same", "if kernels",
        "test_site.py",
    ),
    # sharing
    Mutation(
        "root-without-names", "harness/sharing/merkle.py", 'b"\\0" + name.encode() + b"\\0" +', 'b"\\0" +',
        "test_sharing.py",
    ),
    Mutation(
        "cards-unhashed", "harness/sharing/redaction.py", "return UUID.sub(replaced, text)", "return text",
        "test_sharing.py",
    ),
    Mutation(
        "copies-only-in-order", "harness/sharing/measured_checks.py", 'yield ("sorted and scaled", *(', "(*(",
        "test_sharing.py",
    ),
    Mutation(
        "text-of-a-stranger-with-headers", "harness/sharing/kernels.py",
        "if not trusted and includes_files(job.source)", "if False", "test_sharing.py",
    ),
    Mutation(
        "bound-twice-as-high", "harness/sharing/code_checks.py", "ABOVE_BOUND * most", "2 * ABOVE_BOUND * most",
        "test_sharing.py",
    ),
    Mutation(
        "links-unpacked", "harness/sharing/bundle.py", "if kind not in (0, stat.S_IFREG):", "if False:",
        "test_sharing.py",
    ),
    Mutation(
        "signature-of-what-the-tree-says", "harness/sharing/signing.py", "return with_tree(files)[TREE]",
        "return files.get(TREE) or with_tree(files)[TREE]", "test_signing.py",
    ),
    Mutation(
        "any-issuer", "harness/sharing/signing.py", "issuer not in (None, signer.issuer)", "False", "test_signing.py",
    ),
    # config
    Mutation(
        "override-floats", "harness/config/override.py", "value, end, step = exact(first), exact(last), exact(by)",
        "value, end, step = (Decimal(float(exact(one))) for one in (first, last, by))", "test_config.py", "override",
    ),
    Mutation(
        "override-end-left-out", "harness/config/override.py", "while grows and value <= end",
        "while grows and value < end", "test_config.py", "override",
    ),
    Mutation(
        "condition-with-power", "harness/config/condition.py", "ast.FloorDiv, ast.Mod),",
        "ast.FloorDiv, ast.Mod, ast.Pow),", "test_config.py", "condition",
    ),
    Mutation(
        "condition-any-part", "harness/config/condition.py", "if used <= values.keys() and",
        "if used & values.keys() and", "test_config.py",
    ),
    Mutation(
        "axis-without-nearest", "harness/config/axes.py", "near = nearest_value(variant, axis, value)", "near = None",
        "test_messages.py",
    ),
    # toolkits
    Mutation(
        "binary-digest-unchecked", "harness/toolkits/binaries.py", "if hashlib.sha256(content).digest() == digest:",
        "if digest:", "test_binaries.py",
    ),
    Mutation(
        "binary-prunes-newest", "harness/toolkits/binaries.py", "in sorted(files):", "in sorted(files, reverse=True):",
        "test_binaries.py",
    ),
    Mutation(
        "cache-ignores-versions", "harness/toolkits/compile_cache.py",
        "return [*_surroundings(), repr(", "return [repr(",
        "test_compile_cache.py",
    ),
    Mutation(
        "nvrtc-hides-log", "harness/toolkits/nvrtc.py",
        'raise CompileError(log.replace("\\0", "").strip())', 'raise CompileError("it does not compile")',
        "test_messages.py",
    ),
    # measuring
    Mutation(
        "narrow-too-early", "harness/measuring/protocol.py",
        "if len(samples) >= max(settings.min_samples, FEWEST_SAMPLES):\n        if median",
        "if len(samples) >= FEWEST_SAMPLES:\n        if median", "test_measure.py",
    ),
    Mutation(
        "budget-counts-looks", "harness/measuring/protocol.py", "began += perf_counter() - paused", "began += 0",
        "test_measure.py",
    ),
    Mutation(
        "stages-with-the-first", "harness/measuring/protocol.py", "for each in evaluations[1:]])) for name",
        "for each in evaluations])) for name",
        "test_measure.py test_timed.py",
    ),
    Mutation(
        "harmless-throttle-counts", "harness/measuring/protocol.py", "bool(set(reasons) - HARMLESS)",
        "bool(set(reasons))", "test_measure.py test_devices.py",
    ),
    Mutation(
        "joules-of-a-batch", "harness/measuring/protocol.py", "return spent / (counted * batch) if",
        "return spent / counted if", "test_measure.py",
    ),
    Mutation(
        "insight-beyond-n", "harness/measuring/outcome.py", "not 0 < interactions <= n:",
        "not 0 < interactions <= 2 * n:",
        "test_outcome.py",
    ),
    Mutation(
        "queue-forgets-begun", "harness/measuring/queues.py", "tasks = [*([begun] if begun else []), *left]",
        "tasks = [*left]", "test_engine.py test_search.py test_dask.py",
    ),
    Mutation(
        "queue-of-gpus-first", "harness/measuring/queues.py", "key=lambda task: task.case.gpus > 1)",
        "key=lambda task: task.case.gpus <= 1)", "test_engine.py test_gpus.py test_search.py test_runner.py",
    ),
    Mutation(
        "lengths-overflow", "harness/verifying/comparing.py",
        "rest = np.flatnonzero(~((squares > SQUARES[0]) & (squares < SQUARES[1])))",
        "rest = np.flatnonzero(~((squares > SQUARES[0]) & (squares < np.inf)) & False)",
        "test_reference.py test_interaction.py",
    ),
    # verdicts
    Mutation(
        "beyond-one-sided", "harness/verdicts/compare.py", "if low > 1 + limit:", "if low > 1:", "test_compare.py",
    ),
    Mutation(
        "half-widths-add", "harness/verdicts/ratios.py",
        "below = max(math.hypot(math.log(middle / (new.low / base.high)), wider), least)",
        "below = max(math.log(middle / (new.low / base.high)), wider, least)", "test_compare.py test_uncertainty.py",
    ),
    Mutation(
        "scatter-nearest-anchor", "harness/verdicts/ratios.py",
        "part = math.log(at / shorter.seconds) / math.log(longer.seconds / shorter.seconds)", "part = 1.0",
        "test_uncertainty.py test_compare.py",
    ),
    Mutation(
        "uncertainty-of-ratio", "harness/verdicts/uncertainty.py", "self.scatter(record).of_ratio / math.sqrt(2)",
        "self.scatter(record).of_ratio", "test_uncertainty.py",
    ),
    Mutation(
        "nan-is-ranked", "harness/verdicts/ranking.py", 'record.status == "ok" and seconds(record) > 0',
        'record.status == "ok"', "test_report.py test_compare.py test_quantiles.py test_arena.py",
    ),
    Mutation(
        "fastest-extrapolates-linearly", "harness/verdicts/fastest.py", "seconds * (n / first) ** 2",
        "seconds * (n / first)", "test_fastest.py",
    ),
    Mutation(
        "fastest-error-up", "harness/verdicts/fastest.py", "rounding=ROUND_UP)", 'rounding="ROUND_HALF_EVEN")',
        "test_fastest.py",
    ),
    Mutation(
        "nearest-table-by-multiprocessors-first", "harness/model/device.py",
        """            _apart(self.compute_capability, other.compute_capability),
            _apart(self.multiprocessors, other.multiprocessors),""",
        """            _apart(self.multiprocessors, other.multiprocessors),
            _apart(self.compute_capability, other.compute_capability),""",
        "test_fastest.py",
    ),
    Mutation(
        "promise-one-row-more", "harness/verdicts/promise.py", "return self.exceeding > self.accepted",
        "return self.exceeding > self.accepted + 1", "test_promise.py",
    ),
    Mutation(
        "promise-often-broken", "harness/verdicts/promise.py", "<= CHANCE)) - 1", "<= 10 * CHANCE)) - 1",
        "test_promise.py",
    ),
    Mutation(
        "promise-nan-is-right", "harness/verdicts/promise.py", "np.count_nonzero(~(errors <= error))",
        "np.count_nonzero(errors > error)", "test_promise.py",
    ),
    Mutation(
        "promise-forgotten", "harness/accelerations.py", " and its_error < memory.below_in(choice.dtype)", "",
        "test_promise.py",
    ),
    Mutation(
        "promise-broken-for-ever", "harness/accelerations.py", "    memory.try_again()\n", "", "test_promise.py",
    ),
    Mutation(
        "more-rows-whatever-they-cost", "harness/accelerations.py",
        "more = slower > ", "more = 0 < ", "test_promise.py",
    ),
    Mutation(
        "never-more-rows", "harness/accelerations.py", "scaled.n, pairs, wanted.quantile, memory.generator, more=more)",
        "scaled.n, pairs, wanted.quantile, memory.generator)", "test_promise.py",
    ),
    Mutation(
        "rows-on-every-gpu", "harness/accelerations.py", "2 * promise.PAIRS_ON_DEVICE // ",
        "promise.PAIRS_ON_DEVICE + 0 * ", "test_staging.py",
    ),
    Mutation(
        "group-kept-at-one-place", "harness/verifying/verify.py", "there.keep(place)", "there.keep(0)",
        "test_results_there.py",
    ),
    Mutation(
        "group-without-fillings", "harness/verifying/verify.py", "                there.fill(number)\n", "",
        "test_results_there.py",
    ),
    Mutation(
        "marks-not-cleared", "harness/toolkits/cuda_results.py",
        "driver.copy_in(self._marks, np.zeros_like(marks))", "pass", "test_results_there.py",
    ),
    Mutation(
        "direct-sums-not-checked", "harness/accelerations.py", 'not (dtype == "float64" and _is_direct(choice, dtype))',
        "not _is_direct(choice, dtype)", "test_promise.py", "promise_is_kept",
    ),
    Mutation(
        "compared-as-rounded", "harness/model/units.py", "self.pulled[rows].astype(np.float64, copy=False)",
        "self.pulled[rows].astype(np.float32).astype(np.float64)", "test_promise.py test_staging.py",
        "promise_is_kept or as_they_were_given",
    ),
    Mutation(
        "compared-before-they-are-scaled", "harness/accelerations.py", "        bodies.scale(scaled)\n    sums.queue",
        "    sums.queue", "test_staging.py", "as_they_were_given",
    ),
    Mutation(
        "sum-of-rows-without-a-barrier", "variants/parts/force_on_rows.cu",
        "[threadIdx.x + half].az;\n            }\n            __syncthreads();",
        "[threadIdx.x + half].az;\n            }",
        "test_promise.py", "sums_of_rows",
    ),
    Mutation(
        "copy-back-not-waited-for", "harness/toolkits/staging.py", "        self._toolkit.wait(None)\n", "",
        "test_staging.py",
    ),
    Mutation(
        "extent-without-nan", "variants/parts/lay_out_bodies.cu", "one <= other || one != one", "one <= other",
        "test_staging.py", "not_finite_is_found_on_the_device",
    ),
    Mutation(
        "digits-lost-on-the-device", "harness/toolkits/host_arrays.py",
        "not scaled.lost(dtype) and units.keeps_digits(dtype, self._power, smallest, -largest)",
        "not scaled.lost(dtype)",
        "test_staging.py", "converted_on_the_device",
    ),
    Mutation(
        "faint-bodies-not-computed-again", "harness/toolkits/host_arrays.py",
        "not scaled.lost(dtype) and units", "units", "test_staging.py", "converted_on_the_device",
    ),
    Mutation(
        "sums-before-the-bodies", "harness/toolkits/row_sums.py", "toolkit.follow(stream)", "pass",
        "test_staging.py", "compared_on_the_device",
    ),
    Mutation(
        "origin-not-subtracted-on-the-host", "harness/model/units.py", "if self.origin is not None:", "if False:",
        "test_staging.py test_force_units.py",
    ),
    # report
    Mutation(
        "number-digits", "harness/report/numbers.py", "max(0, digits - 1 - magnitude)", "max(0, digits - magnitude)",
        "test_report.py test_written_numbers.py",
    ),
    Mutation(
        "percent-as-part", "harness/report/numbers.py", 'f"{100 * fraction:.2f}"', 'f"{fraction:.2f}"',
        "test_report.py test_compare.py",
    ),
    Mutation(
        "fastest-of-any-type", "harness/report/cases.py",
        '(record.n, record.dtype, record.timed) == (n, "float32", "force")', '(record.n, record.timed) == (n, "force")',
        "test_languages.py",
    ),
    Mutation(
        "reproduce-other-protocol", "harness/report/page/reproduce.py",
        "not (short and record.protocol[name] == usual)",
        "record.protocol[name] == usual", "test_page.py", "command",
    ),
    Mutation(
        "bold-whatever-the-error", "harness/report/story_path.py", "return error <= limit", "return True",
        "test_story.py",
    ),
    Mutation(
        "story-text-too-long", "harness/report/story_figure.py", "return min(size, room / ", "return max(size, room / ",
        "test_story.py",
    ),
    # explain
    Mutation(
        "occupancy-whole-registers", "harness/explain/occupancy.py", "REGISTERS // 4 // max(of_warp, 1) * 4 // warps",
        "REGISTERS // max(of_warp, 1) // warps", "test_ledger.py", "occupancy or holds or warps",
    ),
    Mutation(
        "bound-by-fastest-pipe", "harness/explain/bounds.py", "most = max(clocks.values())",
        "most = min(clocks.values())", "test_ledger.py", "bound",
    ),
    Mutation(
        "pairs-pass-once", "harness/explain/pipes.py", 'return 2 if opcode', 'return 1 if opcode', "test_ledger.py",
        "xu or pipe or lanes",
    ),
    Mutation(
        "xu-with-32-lanes", "harness/explain/pipes.py", "_XU = 16", "_XU = 32", "test_ledger.py", "xu",
    ),
    # learning
    Mutation(
        "learn-smallest-difference", "harness/learning/grading.py", "key=lambda difference: -difference.excess",
        "key=lambda difference: difference.excess", "test_learning.py", "student",
    ),
    Mutation(
        "learn-fewer-warps", "harness/learning/grading.py", '("warps", "threads_per_body", "votes")',
        '("threads_per_body", "votes")', "test_learning.py", "skeleton",
    ),
    Mutation(
        "learn-error-of-the-head", "harness/learning/checking.py", 'for key in ("error", "precision")',
        'for key in ("precision",)', "test_learning.py", "other_rules",
    ),
    Mutation(
        "learn-mutual-believed", "harness/learning/checking.py", "if claim or beyond_limits:", "if beyond_limits:",
        "test_learning.py", "diagnosis",
    ),
    Mutation(
        "learn-skeleton-is-copied", "harness/learning/similarity.py", "sequences(text) - known", "sequences(text)",
        "test_learning.py", "nearly_the_same",
    ),
    Mutation(
        "learn-limits-replaced-whole", "harness/learning/thresholds.py",
        "{**others.exercises.get(name, {}), **self.exercises.get(name, {})}", "self.exercises.get(name, {})",
        "test_learning.py", "thresholds",
    ),
    # judging
    Mutation(
        "entry-poison", "harness/judging/launching.py", "return np.full(shape, bits, kind).view(entry.real)",
        "return np.zeros(shape, entry.real)", "test_judging.py", "explained",
    ),
    Mutation(
        "entry-far-bodies", "harness/judging/judgement.py", "near=turn % 2 == 1", "near=False",
        "test_judging.py", "bodies_of_each",
    ),
    Mutation(
        "entry-first-launch-alone", "harness/judging/judgement.py",
        "        if not size.right:\n            return size\n", "", "test_judging.py", "kept",
    ),
    Mutation(
        "entry-refused-is-right", "harness/judging/judged.py", " and not self.costs[0].refused", "",
        "test_judging.py", "no_gpu",
    ),
    Mutation(
        "entry-bodies-may-change", "harness/judging/emulating.py",
        "if fault := changed(inputs, arrays, emulated.arrays):", "if fault := None:",
        "test_exploits.py", "changes_bodies_afterwards",
    ),
    Mutation(
        "entry-reaches-all-arrays", "harness/emulation/checked.cpp", "if (!array.given)", "if (false)",
        "test_exploits.py", "former_output",
    ),
    Mutation(
        "entry-defines-checks", "harness/emulation/programs.py", "and CHECKS.fullmatch(name)", "and not name",
        "test_exploits.py", "defines_check",
    ),
    Mutation(
        "entry-stores-unseen", "harness/emulation/device.hpp", "name& operator=(const name& other)",
        "name& copied(const name& other)", "test_exploits.py", "races",
    ),
    Mutation(
        "entry-answers-as-it-likes", "harness/emulation/emulated.py", "if not match or", "if",
        "test_exploits.py", "system_writes_an_answer",
    ),
    # search
    Mutation(
        "race-looks-late", "harness/verdicts/racing.py", "return int(doublings) + 1 if", "return int(doublings) if",
        "test_outraced.py test_search.py",
    ),
    Mutation(
        "race-keeps-finalists", "harness/search/orders.py", "if len(places := self._finalists(number)) > 1]",
        "if len(places := self._finalists(number)) > 2]", "test_search.py test_search_replay.py test_searched_runs.py",
    ),
    # cli
    Mutation(
        "axes-of-accepts-several", "harness/cli/axes.py", "if len(override.values) != 1:", "if not override.values:",
        "test_ledger.py", "what_is_wrong_is_said",
    ),
    Mutation(
        "axes-of-without-misfit", "harness/cli/axes.py", "if why := misfit(variant, toolkit, axes):",
        "if why := None:", "test_ledger.py", "what_is_wrong_is_said",
    ),
    # variants
    Mutation(
        "tiled-last-tile", "variants/all_pairs/tiled.cu", "k < n - first; ++k", "k < n - first - 1; ++k",
        "test_emulated.py", "tiled",
    ),
    Mutation(
        "tiled-numba-barrier", "variants/all_pairs/tiled.py",
        "            cuda.syncthreads()\n            if n - first >= P:", "            if n - first >= P:",
        "test_variants.py", "tiled-numba",
    ),
    Mutation(
        "symmetric-sign", "variants/blocked/symmetric.cu", "    of_j.az += on_j * dz;\n", "    of_j.az -= on_j * dz;\n",
        "test_emulated.py", "symmetric",
    ),
    Mutation(
        "symmetric-ring", "variants/blocked/symmetric.cu", "R * (1 + (blocks - 1) / 2 +", "R * (1 + blocks / 2 +",
        "test_emulated.py", "symmetric",
    ),
    Mutation(
        "walk-half-box", "variants/common/tree_walk.cuh", "max(abs(point.x - box.x) - box.half_x, zero)",
        "max(abs(point.x - box.x) - 3 * box.half_x, zero)",
        "test_emulated.py test_walk_of_resident_tree.py test_resident_tree.py test_barnes_hut_tree.py",
    ),
    Mutation(
        "integrate-drift", "variants/parts/integrate.cu", "z[body] += vz[i] * drift;", "z[body] += vz[i] * kick;",
        "test_timed.py test_emulated.py",
    ),
    Mutation(
        "cpu-symmetric-mass", "variants/cpu/numba_symmetric.py", "sums[k] -= mi * pull", "sums[k] -= pull",
        "test_variants.py", "numba_symmetric",
    ),
    Mutation(
        "gravity-softening", "variants/interactions/gravity.py", "(dz * dz + eps2)", "(dz * dz + 2 * eps2)",
        "test_variants.py", "closed_form and (cpu or naive-numba)",
    ),
    # movie
    Mutation(
        "view-clockwise", "harness/movie/view.py", "np.cross(eye, right), eye]", "np.cross(right, eye), eye]",
        "test_movie.py",
    ),
    Mutation(
        "speed-not-relative", "harness/movie/view.py",
        "relative = bodies.velocity - _mean(bodies.mass, bodies.velocity)", "relative = bodies.velocity",
        "test_movie.py",
    ),
    # asv
    Mutation(
        "asv-text-order", "harness/asv/results.py", "sorted(set(values), key=natural)", "sorted(set(values))",
        "test_export.py test_history.py",
    ),
    Mutation(
        "asv-picoseconds", "harness/asv/export.py", "return seconds / record.evaluated * 1e12",
        "return seconds / record.interactions * 1e12", "test_export.py test_history.py",
    ),
    # the exercises of the page in a browser
    Mutation(
        "page-names-no-sign", "harness/live/diagnosis.js", "scaled({ sums: exact, magnitudes }, () => -1)",
        "scaled({ sums: exact, magnitudes }, () => 1)", "test_live_exercises.py", "same_mistakes",
    ),
    Mutation(
        "page-forgets-the-launch-before", "harness/live/checking.js", "former: turn ? (turn - 1) % LAUNCHES : -1",
        "former: -1", "test_live_exercises.py", "kept_result",
    ),
    Mutation(
        "page-tries-no-barrier", "harness/live/barriers.js", "at > uses[0] &&", "at < uses[0] &&",
        "test_live_exercises.py", "first_barrier_missing",
    ),
    Mutation(
        "page-takes-all-texts-for-good", "harness/live/checking.js", 'return this.ended("right", this.about.lacks)',
        'return this.ended("good", this.about.lacks)', "test_live_exercises.py", "skeleton_fails",
    ),
    Mutation(
        "page-divides-down", "harness/live/head.js", "Math.ceil(a / b)", "Math.floor(a / b)",
        "test_live_exercises.py", "heads_are_read",
    ),
)  # fmt: skip


def copy_checkout(copy: Path) -> None:
    """Copy the files of the checkout, with changes that are not committed, and its history."""
    listing = ["git", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    shutil.copytree(ROOT / ".git", copy / ".git")
    (copy / ".git" / "redirecting").mkdir()
    redirecting = REDIRECTING.format(root=f"{ROOT}{os.sep}", copy=f"{copy}{os.sep}")
    (copy / ".git" / "redirecting" / "sitecustomize.py").write_text(redirecting)


def failing_test(copy: Path, arguments: list[str], marker: str) -> str | None:
    """Run tests of the copy up to the first that fails; return its name without parameters, None where all pass.

    Raises:
        RuntimeError: pytest does not get as far as running tests.
    """
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "-rfE", "-m", marker, *arguments]
    path = os.pathsep.join(filter(None, [str(copy / ".git" / "redirecting"), os.environ.get("PYTHONPATH")]))
    environment = os.environ | {"PYTHONPATH": path}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, check=False)
    if done.returncode in (0, 5):  # all pass; no test has this marker
        return None
    if found := re.search(r"^(?:FAILED|ERROR) ([^\s\[]+)", done.stdout, re.MULTILINE):
        return found[1]
    raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def verdict(copy: Path, mutation: Mutation) -> str:
    """Apply a mutation to the copy, run its tests, undo it, and say who noticed."""
    path = copy / mutation.file
    text = path.read_text("utf-8")
    if text.count(mutation.before) != 1:
        raise RuntimeError(
            f"{mutation.name}: the text before occurs {text.count(mutation.before)} times; expected: once"
        )
    words = ["-k", mutation.words] if mutation.words else []
    arguments = [*words, *(f"tests/{name}" for name in mutation.tests.split())]
    for caught, marker in PARTS.items():
        path.write_text(text.replace(mutation.before, mutation.after), "utf-8")
        try:
            test = failing_test(copy, arguments, marker)
        finally:
            path.write_text(text, "utf-8")
        if test:
            if failing_test(copy, [*words, test], marker):
                return f"not known: {test} fails without the change too"
            return f"{caught}: {test}"
    return "survived"


def main() -> int:
    """Apply the mutations that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="those whose names contain NAME")
    parser.add_argument("--list", action="store_true", help="name them")
    arguments = parser.parse_args()
    chosen = [one for one in MUTATIONS if not arguments.only or any(name in one.name for name in arguments.only)]
    if arguments.list:
        print("\n".join(f"{one.name}: {one.file}" for one in chosen))
        return 0
    caught = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder).resolve() / "gravbench"
        copy.mkdir()
        copy_checkout(copy)
        for mutation in chosen:
            found = verdict(copy, mutation)
            caught += found.startswith("caught")
            print(f"{mutation.name}: {found}", flush=True)
    print(f"{caught} of {len(chosen)} caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
