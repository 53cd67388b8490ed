"""GB and GiB are two units, and `in_unit` writes the one it is asked for."""
import pytest

from helpers.facts.units import GB, KB, MB, TB, UNITS, GiB, KiB, MiB, TiB, in_unit


def test_decimal_units_are_powers_of_1000_and_binary_ones_of_1024():
    assert [1000**n for n in (1, 2, 3, 4)] == [KB, MB, GB, TB]
    assert [KiB, MiB, GiB, TiB] == [1024**n for n in (1, 2, 3, 4)]


def test_every_unit_is_found_under_its_own_name():
    assert {"B": 1, "KB": KB, "MB": MB, "GB": GB, "TB": TB, "KiB": KiB, "MiB": MiB, "GiB": GiB, "TiB": TiB} == UNITS


def test_gb_and_gib_are_7_4_percent_apart():
    assert round(100 * (GiB / GB - 1), 1) == 7.4


@pytest.mark.parametrize(("num_bytes", "unit", "text"), [
    (26e9, "GB", "26 GB"),
    (26e9, "GiB", "24.21 GiB"),
    (1120e9, "GB", "1,120 GB"),
    (71.5e9, "GB", "71.5 GB"),
    (48.75e9, "GB", "48.75 GB"),
    (23_111_111_111, "GB", "23.11 GB"),
    (2 * 176_247_271_424, "GiB", "328.3 GiB"),       # BLOOM's weights, which its README rounds to 329
    (0, "GB", "0 GB"),
    (-3 * MiB, "MiB", "-3 MiB"),
    (25, "B", "25 B"),
])
def test_a_size_is_written_in_the_unit_asked_for(num_bytes, unit, text):
    assert in_unit(num_bytes, unit) == text


@pytest.mark.parametrize(("value", "text"), [
    (9_999.4, "9,999 GB"), (9_999.6, "10,000 GB"), (10_000, "10,000 GB"), (12_345.6, "12,346 GB"),
    (-9_999.6, "-10,000 GB"),
])
def test_a_long_number_keeps_its_whole_part_and_needs_no_exponent(value, text):
    assert in_unit(value * GB, "GB") == text


@pytest.mark.parametrize(("digits", "text"), [(1, "208 GB"), (3, "208 GB"), (4, "207.6 GB"), (6, "207.625 GB")])
def test_digits_after_the_whole_part_can_be_asked_for(digits, text):
    assert in_unit(207.625e9, "GB", digits) == text


@pytest.mark.parametrize("unit", ["gb", "Gb", "PB", ""])
def test_an_unknown_unit_is_refused_with_the_list_of_units(unit):
    with pytest.raises(ValueError, match="unit is one of B, KB, MB, GB, TB, KiB, MiB, GiB, TiB, not '"):
        in_unit(1, unit)
