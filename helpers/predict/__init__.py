"""What a parallelism costs, by formula; never imports torch.

    activations      Bytes that the forward pass of a transformer keeps for its backward pass, tensor by tensor
                     BlockShape, SavedPart, block_parts, block_bytes, blocks_in_flight, pipeline_stage_parts,
                     pipeline_stage_bytes, checkpointed_bytes, best_num_checkpoints, check_name
    collectives      What collectives cost: bytes, messages and seconds, by formula
                     BUS_FACTORS, SHARE_SENT, STEP_COLLECTIVES, Cost, algorithm_bandwidth, bus_bandwidth, bytes_sent,
                     cost, crossover_bytes, fit_link, step_elements_sent
    data_sharding    What loaders draw, right and wrong ones, in numbers
                     Drawn, drawn
    ddp              How much of data parallel's communication hides behind backward?
                     backward_and_all_reduces
    deepspeed        DeepSpeed's own estimate of the memory that model state needs, with offload to the host
                     Estimate, zero2_estimate, zero3_estimate
    flops            FLOPs of a training step of a GPT, and what a measured time says about the hardware
                     Shape, params_by_part, num_params, forward_flops, model_flops, recomputed_flops, hardware_flops,
                     recomputed_share, utilization, mfu, hfu, flops_per_token, training_days, days_by_rule
    fsdp             What a training step of FSDP2 sends, and what it holds at its fullest moment, by units
                     Sharding, num_collectives, step_bytes_sent, forward_parts, backward_parts, passing_parts,
                     passing_bytes, peak_parts, peak_bytes
    layers           What one layer sends under each way of splitting a model, and how long a ring of links takes to
                     carry it
                     tensor_parallel_elements, stage_boundary_elements, mlp_bytes, ulysses_elements,
                     smallest_ring_block, all_gather_s, ring_all_to_all_s
    memory           Bytes of model state on one rank, term by term
                     Recipe, recipe, state_by_term, state_bytes, buffer_bytes, smallest_ranks, largest_params
    pipeline         What a pipeline schedule takes and wastes: simulated, and by closed formulas
                     bubble_1f1b, bubble_dualpipe, bubble_dualpipev, bubble_fraction, bubble_interleaved,
                     bubble_zero_bubble, critical_path, simulate, stage_flops, stage_params
"""
