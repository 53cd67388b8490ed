"""Sentences that say what a picture shows, one module for each topic.

    activations      What a rank holds while it trains, state and activations, and a sentence on whether a card holds
                     that
                     TrainingJob, ledger, held_bytes, least_recompute, largest_batch, job_in_words
    collectives      The sentences beside the pictures of lesson 02: what moves around a ring, and which algorithm is
                     fastest
                     ring_in_words, times_in_words, link_in_words
    data_sharding    What lesson 04's explorer says of draws
                     sampling_in_words
    ddp              The sentence beside the picture of lesson 03: how much of a step's messages hides behind backward
                     overlap_in_words
    fsdp             Sentences on a step of FSDP
                     sharding_in_words
    memory           The sentence beside the bars of lesson 01: what a rank holds, and whether its card holds that
                     fit_in_words
    pipeline         Sentences on a pipeline's schedule
                     schedule_in_words, board_in_words
    zero             Sentences about pictures of ZeRO
                     residency_in_words
"""
