"""Run and judge one submission, where neither can harm anything: a pure function from cells to points and outputs.

    answers       Run a student's cells, inside a sandbox, and hand over what a check asks for
                  Shell, serve_answers, unpacked
    inside        Start a warm process inside a sandbox, and talk to it in JSON; what it says is limited in size and in
                  time
                  Ended, Inside
    judge         Run check cells on what a student's process has handed over, inside a sandbox of the judge's own
                  serve_checks
    outputs       Outputs of cells, as the notebook stores them that nbgrader takes marks from and students read
                  as_shown, for_students, an_error, as_notebook
    rebuild       A submission as a list of cells that the grader has made itself
                  GradedCell, exercise, rebuilt, parsed
    sandbox       A place for code that nobody trusts: bubblewrap makes it, and warm processes join it
                  bubblewrap, Sandbox, join, give_up_privileges
    submission    Grade one submission: from files to a notebook with outputs and points
                  Graded, graded
"""
