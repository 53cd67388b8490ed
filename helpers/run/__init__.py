"""Real processes: start them, measure them, read how they failed.

    collectives      Collectives built from send and receive, over queues, gloo, or a virtual clock
                     Chunks, Deadlock, GlooMesh, Mesh, Played, QueueMesh, VirtualMesh, double_tree,
                     double_tree_all_reduce, halving_doubling_all_reduce, message_seconds, naive_all_gather,
                     naive_all_reduce, naive_all_to_all, naive_broadcast, naive_reduce, naive_reduce_scatter,
                     pairwise_all_to_all, pipelined_ring_all_reduce, play, recursive_doubling_all_reduce,
                     ring_all_gather, ring_all_reduce, ring_reduce_scatter, run_on_gloo, run_on_queues, tree_broadcast,
                     tree_reduce
    commands         What the commands of `python -m helpers` run on real ranks, and the doctor of the environment
    data_sharding    Which samples each rank draws, looked at before training; parts of a batch, and means over all of
                     it
                     check_sampling, global_mean, part_of_batch, preserved_random_state, what_is_drawn
    ddp              Data parallel: every rank has the whole model and a part of the batch; gradients are averaged in
                     buckets
                     DDP, NaiveDDP, broadcast_state, parameters_behind, tensors_in
    fsdp             PyTorch's own FSDP2: cut a model into units, and watch what a step keeps and sends
                     Moment, peak_of, shard, typical_peak, watch_steps, watched_bytes
    launch           Start one function as N processes joined by gloo, wait for all of them, and report how they failed
                     RankFailed, RankHung, Run, launch, preload, warm_up
    measure          What a rank measures of itself: bytes, calls, moments, and whether it still is the same model as
                     the others
    models           Models and data to train on real ranks
                     GPT, Block, Padded, Stream, cut, mlp, perceptron, regression
    pipeline         Play a pipeline schedule on real ranks: stages, messages between them, tied parameters, split
                     backward
                     OwedWeights, PlayedPart, deferred_weights, run_schedule
    process_group    Which ranks take part: those of a process group, or all of them
                     checked_group
    zero             ZeRO: optimizer state, gradients and parameters sharded over data-parallel ranks, one stage after
                     the other
                     ZERO_STAGES, Zero1, Zero2, Zero3, watched_step
"""
