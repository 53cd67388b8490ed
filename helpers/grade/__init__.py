"""What instructors run: release, grade, student.

    course     nbgrader over one course folder, in this process
               GradingFailed, api, run, assignments
    grade      From submitted/ to marks: autograde, feedback, and a table of scores
               Mark, grade
    release    Make exercises/ from solutions/ with nbgrader, and look for what must not be in it
               release, leaks, secrets
    sandbox    Grade in a kernel that cannot see what is none of its business
               sandbox
    student    The tree that a class gets: without solutions, their sources, and tests
               student_archive
"""
