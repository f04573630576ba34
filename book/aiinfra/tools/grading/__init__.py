"""Grade notebooks in two rooms, so that nothing a student writes can reach the tests.

A kernel that runs both the student's code and the tests can be made to say anything:
the code can replace `assert_allclose`, read the tests from its own history, or walk
up the stack to the expected value. So each has a room, a sandboxed process, of its
own:

- :mod:`~aiinfra.tools.grading.student` runs the student's cells. It never sees a test.
- :mod:`~aiinfra.tools.grading.examiner` runs the tests. Names that the student was
  asked to define are stand-ins there: a call travels to the student's room, and what
  comes back is plain values (:mod:`~aiinfra.tools.grading.wire`), never code.

:mod:`~aiinfra.tools.grading.exam` carries messages between them and keeps the time;
:mod:`~aiinfra.tools.grading.course` plugs this into nbgrader's autograder.
"""
