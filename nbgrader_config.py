"""nbgrader's settings; `make release`, `make grade` and formgrader in JupyterLab read them."""
from pathlib import Path

c = get_config()
ROOT = Path(__file__).resolve().parent
(ROOT / "grading").mkdir(exist_ok=True)                                    # sqlite makes no folders

c.CourseDirectory.root = str(ROOT)
c.CourseDirectory.course_id = "training-parallelism"
c.CourseDirectory.source_directory = "solutions"
c.CourseDirectory.release_directory = "exercises"
# all that is private is in one folder, which git ignores
c.CourseDirectory.submitted_directory = "grading/submitted"
c.CourseDirectory.autograded_directory = "grading/autograded"
c.CourseDirectory.feedback_directory = "grading/feedback"
c.CourseDirectory.solution_directory = "grading/solution"
c.CourseDirectory.db_url = f"sqlite:///{ROOT}/grading/gradebook.db"
# nbgrader copies every other file of an assignment's folder to the students
c.CourseDirectory.ignore = [".ipynb_checkpoints", "*.pyc", "__pycache__", "*.py", "*.md"]

# what follows is for `nbgrader autograde` and formgrader's button, which run answers without a sandbox, checks
# beside them; `make grade` does neither.  A deleted check is put back and gives 0, instead of waiting for a person
c.OverwriteCells.add_missing_cells = True
# seconds for a cell: checks take a few, and a busy machine needs several times that
c.Execute.timeout = 180
c.Execute.iopub_timeout = 60
c.Execute.interrupt_on_timeout = True
# else a warning on stderr gives 0 to a right answer
c.IgnorePattern.enabled = True
c.IgnorePattern.pattern = r"(?s).+"

# `nbgrader zip_collect SET` sorts a learning platform's archive from here into grading/submitted/.  The pattern takes
# STUDENT_SET.ipynb, and STUDENT_attempt_2026-01-30-15-00-00_SET.ipynb with the time it was handed in
c.ZipCollectApp.downloaded_directory = "grading/downloaded"
c.FileNameCollectorPlugin.named_regexp = (
    r".*?(?P<student_id>[^_/]+)(_attempt_(?P<timestamp>[0-9-]+))?_(?P<file_id>\d\d_\w+)")
