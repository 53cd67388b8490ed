"""What collectives cost: bytes, messages and seconds, by formula.

    algorithms    Cost of each algorithm of a collective: messages, bytes and additions, one after another
                  Cost, cost, crossover_bytes
    bandwidth     From times to bandwidths, and from measured times to alpha and beta
                  BUS_FACTORS, algorithm_bandwidth, bus_bandwidth, fit_link
    volume        Bytes that one rank sends in a collective, at the least
                  SHARE_SENT, STEP_COLLECTIVES, bytes_sent, step_elements_sent
"""
from helpers.predict.collectives.algorithms import Cost, cost, crossover_bytes
from helpers.predict.collectives.bandwidth import BUS_FACTORS, algorithm_bandwidth, bus_bandwidth, fit_link
from helpers.predict.collectives.volume import SHARE_SENT, STEP_COLLECTIVES, bytes_sent, step_elements_sent

__all__ = ["BUS_FACTORS", "SHARE_SENT", "STEP_COLLECTIVES", "Cost", "algorithm_bandwidth", "bus_bandwidth",
           "bytes_sent", "cost", "crossover_bytes", "fit_link", "step_elements_sent"]
