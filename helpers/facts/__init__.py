"""Plain data and its names; standard library only.

    bubbles          How much of a pipeline's time is idle: four definitions that the literature calls "bubble"
                     busy_s, idle_s, bubble_of_total, bubble_of_ideal, bubble_rate
    buckets          Which gradients travel in one message: buckets
                     buckets
    data_sharding    Who draws which sample in which step: in a right epoch each is drawn once, in equally many steps on
                     every rank
                     DrawFault, Epoch, Sampling, count
    errors           Errors whose message is the whole explanation
                     CourseError, BadValue
    measured         What meters have counted on one rank: bytes on the wire, and bytes of memory
                     Wire, Memory
    network          What a message costs: the alpha-beta-gamma model
                     Link, Network, network
    schedules        Pipeline schedules as data: who does what in which order, in the forms that the literature draws
                     BUILDERS, Action, IllegalSchedule, Pair, Schedule, dependencies, dualpipe, dualpipe_v, from_csv,
                     gpipe, grid, interleaved, most_held, one_f_one_b, parse, to_csv, validate, zb_h1, zb_h2, zb_v
    specs            Numbers about models and cards, each with its source
                     ModelSpec, TransformerSpec, CardSpec, model, transformer, card
    trace            What happened, when, on which rank
                     Span, duration_s, exposed_s
    units            GB and GiB are 7.4 % apart; this course writes the one it means
                     in_unit
"""
