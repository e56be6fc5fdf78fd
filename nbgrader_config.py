"""How nbgrader treats this course; every nbgrader command that starts in this folder reads it."""
c = get_config()

c.CourseDirectory.course_id = "kv"
c.CourseDirectory.source_directory = "source_assignments"
c.CourseDirectory.release_directory = "notebooks"

# nbgrader copies every file beside a lesson into the release, so the lesson's text must be left out: it holds the
# solution, and so do the copies that editors leave. Outcomes of the prompts stay covered until they are answered.
c.CourseDirectory.ignore = [
    ".ipynb_checkpoints", "__pycache__", "*.pyc", "feedback",
    "*.py", "*.py.*", "questions.toml", "*~", ".*.sw?", "*.bak", "*.orig", "*.rej",
]

# notebooks/ is kept in git, so it is always there already: without this nothing would be written and nothing be said.
c.GenerateAssignment.force = True

# A check cell that a student tags "skip-execution" would otherwise earn full marks.
c.Execute.skip_cells_with_tag = "never"

c.ClearSolutions.code_stub = {"python": 'raise NotImplementedError("write this part, then delete this line")'}

try:
    from autograder.staff.plugin import configure
except ModuleNotFoundError as missing:
    # A student repository has no instructors' part; any other missing module is an error.
    if missing.name not in {"autograder", "autograder.staff"}:
        raise
else:
    configure(c)
