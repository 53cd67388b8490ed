"""Messages between real ranks are timed; more bytes take longer."""
import pytest

from helpers.facts.errors import BadValue
from helpers.run.collectives import message_seconds


@pytest.mark.parametrize("size", [0, 2, 6, 4.0])
def test_a_size_is_a_multiple_of_four_bytes(size):
    with pytest.raises(BadValue, match="a multiple of 4 bytes"):
        message_seconds((4, size))


@pytest.mark.ranks
def test_each_size_has_its_time_and_many_bytes_take_longer_than_few():
    seconds = message_seconds((4, 4_000, 40_000_000))
    assert list(seconds) == [4, 4_000, 40_000_000]
    assert 0 < seconds[4] < seconds[40_000_000]
