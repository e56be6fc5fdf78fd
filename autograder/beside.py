"""The files that a lesson leaves beside its notebook; they are handed in with it, and a grader's cells find them again."""

PREDICTIONS = "predictions.json"    # what was predicted, and when
COPY_COSTS = "copy_costs.json"      # lesson 5's record of the learner's own machine
LEARNERS = (PREDICTIONS, COPY_COSTS)
LARGEST = 2**20                     # bytes; either takes some thousands
