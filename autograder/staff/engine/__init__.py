"""The lean run: cells of a submission in a fork of a warm process, in a sandbox of its own.

    client    the grader's side: starts the warm process, asks it for sandboxes, runs a notebook's cells in one
    zygote    the warm process: has imported what lessons import, sits in the jail, forks on request
    sandbox   the jail, and what each fork gives up before it runs anything
    seccomp   the system calls that a fork gives up
    shell     IPython in the fork: runs cells, collects their outputs
    wire      messages between the two sides: JSON with a length in front, never pickle

Whatever comes back over the wire may have been written by a learner's code: the client takes it as text of a limited
size, and no mark depends on what it claims.
"""
