"""What a learner presses: one ES module with its CSS per widget, the same in a notebook and on a static page."""
