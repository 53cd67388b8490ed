"""What instructors run: release, grade, student.

    apart      Run and judge one submission, where neither can harm anything: a pure function from cells to points and
               outputs
    course     nbgrader over one course folder, in this process
               GradingFailed, api, run, assignments
    demo       A class of thirty to try grading on: right, blank, partly right, mistaken and hostile submissions
               demo_class
    digest     What a mark depends on, as one number: as long as it is the same, nothing is graded again
               digest
    grade      From submitted/ to marks: run, judge, record, feedback, and a table of scores
               Mark, grade
    inbox      What is in grading/submitted/: one place for each submission, and words for whatever stands in another
               Submission, submissions
    record     What is known of graded submissions: nbgrader's gradebook, and beside it what each mark depends on
               Record
    release    Make exercises/ from solutions/ with nbgrader, and look for what must not be in it
               release, leaks, secrets
    report     How a class fared: a table of properties, and a page with what was hard and the commonest mistakes
               Judged, write_report
    student    The tree that a class gets: without solutions, their sources, and tests
               student_archive
"""
