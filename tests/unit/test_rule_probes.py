"""Each subtype below, at and above its thresholds; step by step; by every rule of the table."""

import pytest
from rule_probes import PROBES, failing


@pytest.mark.parametrize("subtype", PROBES)
def test_what_the_rule_concludes(subtype):
    assert failing(subtype) == ""
