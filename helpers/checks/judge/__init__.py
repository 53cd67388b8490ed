"""What all checks share: points, other processes, real ranks, forbidden packages, the peak of what is held.

    captured         What a learner's function brings along from outside: helpers, globals, closures, defaults
                     without_annotations, captured_table, num_steps, reached
    forbidden        What exercises forbid: packages that know the answer
                     forbidding, forbidden_import
    live_peak        What a learner's code holds at most, on a rank
                     settled, LivePeak
    other_process    Run a learner's function in another process, which it can break without harm
                     Raised, answers, in_other_process, pickled, words_for, about_stub_or_import
    real_ranks       Run a learner's function on real ranks, where what the exercise forbids cannot be imported
                     on_ranks, on_ranks_together, runs_in_order, judged_on_ranks, too_little_sent
    seed             Where unseen cases come from: a seed that only the instructor's tree holds
                     use, draws_for
    sent             A learner's answer as the check gets it when marks count: packed where it was made, and unpacked in
                     ranks only
                     Sent
    verdict          Points for each property of an answer, and words for each mistake
                     CheckFailed, Verdict, noted, score, unseen, first_wrong, number_verdict, same_verdict, is_number,
                     plain, shown
"""
