"""DeepSpeed's estimators, row by row of the table in the docstring; published runs are in tests/published."""
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.predict.deepspeed import Estimate, zero2_estimate, zero3_estimate

BOTH = {"offload_param": True, "offload_optimizer": True}
OPTIMIZER = {"offload_param": False, "offload_optimizer": True}
NOTHING = {"offload_param": False, "offload_optimizer": False}


# P = 1200 parameters, 100 in the largest layer; buffer_factor 1, so that each number can be counted by hand
@pytest.mark.parametrize(("gpus", "nodes", "offload", "gpu_bytes", "host_bytes"), [
    (2, 1, True, 2 * 1200, 16 * 1200),                        # max(4n, 16): n small
    (8, 1, True, 2 * 1200, 32 * 1200),                        # n large
    (8, 3, True, 2 * 1200, 32 * 1200),                        # the documentation: n of one node, not N of all
    (1, 1, False, 20 * 1200, 4 * 1200),                       # 4P + 16P/N is 20 bytes on one GPU
    (8, 1, False, 6 * 1200, 32 * 1200),                       # and 6 on eight
    (8, 2, False, 5 * 1200, 32 * 1200),
])
def test_zero_2_needs_what_the_documentation_says(gpus, nodes, offload, gpu_bytes, host_bytes):
    assert zero2_estimate(1200, gpus, nodes, offload, 1) == Estimate(gpu_bytes, host_bytes)


@pytest.mark.parametrize(("gpus", "nodes", "offload", "zero_init", "gpu_bytes", "host_bytes"), [
    (4, 3, BOTH, True, 400, 7200),                            # 4L; 18P/m
    (4, 3, BOTH, False, 400, 19200),                          # 4n P is more than 18P/m
    (4, 1, BOTH, False, 400, 21600),                          # and here less
    (4, 3, OPTIMIZER, True, 600, 6400),                       # 4L + 2P/N; 16P/m
    (4, 3, OPTIMIZER, False, 600, 19200),
    (2, 1, OPTIMIZER, False, 1600, 19200),                    # 16P is more than 4n P
    (4, 3, NOTHING, True, 2200, 1600),                        # 4L + 18P/N; 4n L
    (4, 3, NOTHING, False, 2200, 19200),                      # 4n P
])
def test_zero_3_needs_what_the_documentation_says(gpus, nodes, offload, zero_init, gpu_bytes, host_bytes):
    estimate = zero3_estimate(1200, 100, gpus, nodes, **offload, zero_init=zero_init, buffer_factor=1)
    assert estimate.gpu_bytes == pytest.approx(gpu_bytes)
    assert estimate.host_bytes == pytest.approx(host_bytes)


@pytest.mark.parametrize(("offload", "host_bytes"), [(BOTH, 7200), (OPTIMIZER, 6400), (NOTHING, 19200)])
def test_with_zero_init_the_largest_layer_counts_only_where_nothing_is_on_the_host(offload, host_bytes):
    estimate = zero3_estimate(1200, 1200, 4, 3, **offload, buffer_factor=1)         # one layer is the whole model
    assert estimate.host_bytes == pytest.approx(host_bytes)


def test_11b_parameters_take_22_gb_of_a_40_gb_gpu_however_many_gpus_there_are():
    assert zero2_estimate(11e9).gpu_bytes == 22e9
    assert zero2_estimate(11e9, gpus_per_node=8, num_nodes=4).gpu_bytes == 22e9


@pytest.mark.parametrize("estimate", [
    lambda factor: zero2_estimate(1200, 4, 2, True, factor),
    lambda factor: zero2_estimate(1200, 4, 2, False, factor),
    *(lambda factor, offload=offload, init=init: zero3_estimate(1200, 100, 4, 2, **offload, zero_init=init,
                                                                buffer_factor=factor)
      for offload in (BOTH, OPTIMIZER, NOTHING) for init in (True, False)),
])
def test_the_buffer_factor_multiplies_the_host_and_leaves_the_gpu(estimate):
    assert estimate(1.5).host_bytes == pytest.approx(1.5 * estimate(1).host_bytes)
    assert estimate(1.5).gpu_bytes == estimate(1).gpu_bytes


def test_the_host_gets_half_as_much_again_unless_told_otherwise():
    assert zero2_estimate(1200).host_bytes == 1.5 * zero2_estimate(1200, buffer_factor=1).host_bytes
    assert zero3_estimate(1200, 100).host_bytes == 1.5 * zero3_estimate(1200, 100, buffer_factor=1).host_bytes


def test_defaults_are_one_gpu_and_everything_on_the_host():
    assert zero2_estimate(1200) == zero2_estimate(1200, 1, 1, True)
    assert zero3_estimate(1200, 100) == zero3_estimate(1200, 100, 1, 1, True, True, True)


@given(st.integers(1, 10**12), st.integers(1, 16), st.integers(1, 64), st.floats(0, 1))
def test_each_thing_on_the_host_is_a_relief_of_the_gpu(params, gpus, nodes, share):
    layer = share * params
    gpu = [zero3_estimate(params, layer, gpus, nodes, **offload).gpu_bytes for offload in (BOTH, OPTIMIZER, NOTHING)]
    assert gpu[0] < gpu[1] < gpu[2]
    assert (gpu[2] - gpu[0]) * gpus * nodes == pytest.approx(18 * params)        # nothing is left out, nothing is twice
    assert zero2_estimate(params, gpus, nodes, True).gpu_bytes < zero2_estimate(params, gpus, nodes, False).gpu_bytes


@pytest.mark.parametrize("estimate", [zero2_estimate, lambda params, *args: zero3_estimate(params, 1, *args)],
                         ids=["zero2", "zero3"])
@pytest.mark.parametrize(("arguments", "message"), [
    ((0,), "params is the number of parameters, such as 13e9, not 0"),
    ((-1e9,), "params is the number of parameters"),
    ((float("nan"),), "params is the number of parameters"),
    ((float("inf"),), "params is the number of parameters"),
    (("13B",), "params is the number of parameters, such as 13e9, not '13B'"),
    ((1e9, 0), "gpus_per_node is a whole number from 1, not 0"),
    ((1e9, 8.0), "gpus_per_node is a whole number from 1, not 8.0"),
    ((1e9, True), "gpus_per_node is a whole number from 1, not True"),
    ((1e9, -2, -2), "gpus_per_node is a whole number from 1, not -2"),
    ((1e9, 8, 0), "num_nodes is a whole number from 1, not 0"),
    ((1e9, 8, 1.5), "num_nodes is a whole number from 1, not 1.5"),
])
def test_nonsense_is_refused_and_the_message_says_what_is_wanted(estimate, arguments, message):
    with pytest.raises(ValueError, match=message):
        estimate(*arguments)


@pytest.mark.parametrize("estimate", [lambda f: zero2_estimate(1e9, buffer_factor=f),
                                      lambda f: zero3_estimate(1e9, 1e6, buffer_factor=f)], ids=["zero2", "zero3"])
@pytest.mark.parametrize("factor", [0.99, 0, -1, float("nan"), float("inf")])
def test_a_buffer_factor_below_1_is_refused(estimate, factor):
    with pytest.raises(ValueError, match=r"buffer_factor is 1 \(nothing to spare\) or more, not "):
        estimate(factor)


@pytest.mark.parametrize("layer", [-1, 2e9, float("nan")])
def test_a_layer_larger_than_the_model_is_refused(layer):
    with pytest.raises(ValueError, match="largest_layer_params is between 0 and params, not "):
        zero3_estimate(1e9, layer)


def test_parameters_on_the_host_without_the_optimizer_are_refused_with_both_ways_out():
    with pytest.raises(ValueError, match="set offload_optimizer=True too, or offload_param=False"):
        zero3_estimate(1e9, 1e6, offload_param=True, offload_optimizer=False)
