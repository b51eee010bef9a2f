"""The changes of ``mutations.py`` can be made: the text that each replaces is there, once."""

import pytest

from mutations import MUTATIONS, ROOT


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_what_a_mutation_replaces_is_there_once(mutation):
    assert (ROOT / mutation.file).read_text("utf-8").count(mutation.before) == 1
    assert mutation.after != mutation.before
    assert all((ROOT / "tests" / name).is_file() for name in mutation.tests.split())
