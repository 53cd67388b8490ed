"""The frames of the ring, their words and pictures, and the widget that steps through them."""
import re
from itertools import pairwise

import matplotlib
import pytest

from helpers.compare.plots import png, ring_frame, ring_strip
from helpers.compare.ring_frames import parts_in, ring_frames
from helpers.compare.widgets import ring_explorer
from helpers.compare.words.collectives import ring_in_words
from helpers.facts.errors import BadValue

matplotlib.use("agg")


@pytest.mark.parametrize("n", [2, 3, 4, 5, 6])
def test_each_frame_follows_from_the_one_before(n):
    """Played by hand: what a rank sends is added by, or replaces what has, the next rank."""
    frames = ring_frames(n)
    assert len(frames) == 2 * (n - 1) + 1
    for before, after in pairwise(frames):
        held = [list(rank) for rank in before.held]
        for rank, chunk in enumerate(before.moving):
            target = held[(rank + 1) % n]
            target[chunk] = before.held[rank][chunk] + (target[chunk] if before.reduces else 0)
        assert [tuple(rank) for rank in held] == list(after.held)
    assert frames[-1].held == ((int("1" * n),) * n,) * n
    assert frames[-1].moving == ()


@pytest.mark.parametrize("n", [2, 4, 6])
def test_c7_after_the_reduce_scatter_rank_r_owns_chunk_r(n):
    middle = ring_frames(n)[n - 1]
    whole = [[len(parts_in(held, n)) == n for held in rank] for rank in middle.held]
    assert whole == [[chunk == rank for chunk in range(n)] for rank in range(n)]
    assert not middle.reduces


@pytest.mark.parametrize("n", [1, 7, 4.0, None])
def test_a_ring_has_two_to_six_ranks(n):
    with pytest.raises(BadValue, match="from 2 to 6"):
        ring_frames(n)


def test_the_words_say_what_moves_and_how_much_was_sent():
    frames = ring_frames(4)
    assert "<li>rank 0 sends chunk 3 (of rank 0) to rank 1</li>" in ring_in_words(frames[0])
    assert ring_in_words(frames[0]).startswith("Reduce-scatter, step 1 of 3:")
    third = ring_in_words(frames[2])
    assert "<li>rank 3 sends chunk 0 (sum of ranks 1, 2, 3) to rank 0</li>" in third
    assert third.endswith("Whoever receives a chunk adds it to its own. So far each rank has sent 2 chunks, 0.5 T.")
    fourth = ring_in_words(frames[3])
    assert fourth.startswith("All-gather, step 1 of 3:")
    assert "<li>rank 2 sends chunk 2 (complete) to rank 3</li>" in fourth
    assert "keeps it" in fourth
    assert ring_in_words(frames[6]) == ("The end: every chunk on every rank is the sum over all 4 ranks. "
                                        "So far each rank has sent 6 chunks, 1.5 T.")


def test_the_picture_has_a_stripe_for_each_rank_that_was_added():
    frame = ring_frames(4)[2]
    axes = ring_frame(frame)
    stripes = sum(len(parts_in(held, 4)) for rank in frame.held for held in rank)
    assert len(axes.patches) == 16 + stripes
    assert [text.get_text() for text in axes.texts if text.get_text().startswith("chunk")] == [
        f"chunk {chunk}" for chunk in frame.moving]
    png(axes)


def test_the_strip_has_all_frames():
    axes = ring_strip(ring_frames(4))
    titles = [one.get_title() for one in axes.figure.axes]
    assert titles == [*(f"before step {k} of 6, {'reduce-scatter' if k < 4 else 'all-gather'}" for k in range(1, 7)),
                      "the end", ""]
    png(axes)


def parts(box):
    ranks, row, (picture, words) = *box.children[:2], box.children[2].children
    return ranks, *row.children, words, picture


def test_slider_and_field_step_through_the_frames():
    _, step, slider, words, picture = parts(ring_explorer())
    seen = set()
    for number in range(7):
        slider.value = number
        assert step.value == number
        assert words.value == ring_in_words(ring_frames(4)[number])
        seen.add(bytes(picture.value))
    assert len(seen) == 7


def test_another_number_of_ranks_starts_again_with_its_own_number_of_steps():
    ranks, step, slider, words, _ = parts(ring_explorer())
    slider.value = 6
    ranks.value = 3
    assert (step.value, step.max, slider.max) == (0, 4, 4)
    assert len(re.findall("<li>", words.value)) == 3
    ranks.value = 6
    assert (step.value, step.max, slider.max) == (0, 10, 10)
