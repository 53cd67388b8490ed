"""What a rank measures of itself: bytes, calls, moments, and whether it still is the same model as the others.

    fingerprint       Are the ranks still the same model?  A hash of every tensor, 8 bytes each, compared across ranks
                      Difference, fingerprint, first_difference, same_randomness
    gather_objects    What every rank has, on every rank
                      gather_objects
    live_saved        Bytes that autograd keeps for backward and that still live, at any time
                      LiveSavedBytes
    memory_limit      Give a rank a small memory of its own, so that it can really run out of it
                      limit_memory
    meters            Count bytes on the wire and bytes in memory, inside a rank program
                      keep_groups, wire, memory, largest_growth, wire_total, live_tensor_bytes, private_bytes
    place             Where a rank is among its calls of torch.distributed, in a small file that the launcher reads
                      Place, write_place, read_place
    recorder          Note every call of torch.distributed that a rank makes
                      install, count_anew, spans, bytes_handed_over
    residency         What is alive when: every allocation of a step, from torch's profiler
                      Residency, holds, residency
    saved_tensors     Measure what forward keeps for backward, and what both compute
                      SavedTensor, Saved, Flops, saved, counted_flops
    state             The tensors of one rank's training state, by the terms of helpers/predict/memory.py
                      state_tensors, of_optimizer, bytes_by_term
    timeline          When was each layer's backward, and when was each all_reduce on its way?
                      timeline
"""
