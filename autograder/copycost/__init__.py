"""What copying KV blocks costs on the machine at hand: every way checked, then timed, fitted and drawn.

    shapes    what one block of a real model weighs
    ways      the ways of copying many blocks; `exact` checks each before it is timed
    clock     one measurement: warm-up, repeats, median and quartiles, by CUDA events on a GPU
    measure   the whole record of a machine; `python -m autograder.copycost --record FILE` makes one
    records   a record as a file, checked against its schema on the way in and out
    fit       t = overhead + bytes / bandwidth, and the block count where the two are equal
    figures   pictures of a record, which name its device

Torch is imported on use. Nothing here knows a time or a rate that no run gave.
"""
