"""What the commands of `python -m helpers` run on real ranks, and the doctor of the environment.

    ddp           Rank programs of `python -m helpers ddp-demo` and `python -m helpers ddp`
                  demo, compared, spread
    doctor        Say what is wrong with the environment, and how to mend it
                  Requirement, Diagnosis, check_environment
    pipeline      Rank program that plays one schedule and holds it against one process: for `python -m helpers
                  pipeline` and widgets
                  PipelineResult, one_step, one_step_of
    start_cost    What it costs to start ranks: torch's `spawn` and `torchrun` against the fork server of `launch`
                  add_up, launch_seconds, spawn_seconds, torchrun_seconds
    torchrun      Run a rank program on processes of our own, or, under torchrun, be one of its ranks
                  launch_or_join
    zero          Rank program of `python -m helpers zero`: the stages of ZeRO beside one process and PyTorch's own
                  ZeroRun, stages, MasterCopies, all_parameters
"""
