"""What the commands of `python -m helpers` print.

    collectives    One algorithm on three transports, counted side by side: `python -m helpers collectives`
                   three_transports
    ddp            What `python -m helpers ddp-demo` and `python -m helpers ddp` print and write
                   ddp_demo, demo_table, write, one_process_against_ddp, check
    pipeline       What `python -m helpers pipeline` prints
                   pipeline
    zero           What `python -m helpers zero` prints
                   zero, training_table, memory_table
"""
