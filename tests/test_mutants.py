"""Every mutant of every reference solution fails its check, or is known to do the same thing and listed here."""

from __future__ import annotations

import ast

import pytest
from mutants import mutants

from autograder.checks import judge, record
from autograder.exercises import EXERCISES
from conftest import ROOT, needs_sources

COUNT_NOT_NEGATIVE = "a reference count is never below 0 here, so 0 is the only value that differs"
UNDEFINED = "only token counts that are negative or not whole tell them apart, and the contract leaves those undefined"
AGAIN = "04_real_cache/BlockManager"    # lesson 3's class, pasted: the test below holds the two against each other
UNTOUCHED = ("04_real_cache/copy_block", "05_copy_costs/copy_blocks")    # nothing in it that an operator changes; wrong variants stand in for mutants
EQUIVALENT = {
    "01_contiguous_vs_paged/slack_fraction": {"ReplaceComparisonOperator_Eq_LtE 0": UNDEFINED},
    "01_contiguous_vs_paged/BlockManager": {
        "ReplaceComparisonOperator_Eq_LtE 0": COUNT_NOT_NEGATIVE,
        "ReplaceComparisonOperator_Eq_GtE 0": "without fork a count falls from 1 to 0 and nowhere else",
    },
    "03_copy_on_write/BlockManager": {
        "NumberReplacer 5": UNDEFINED,
        "ReplaceComparisonOperator_NotEq_Gt 0": UNDEFINED,
        "ReplaceComparisonOperator_NotEq_Lt 0": UNDEFINED,
        "ReplaceComparisonOperator_NotEq_IsNot 0": "int() gives an int back as the same object",
        "ReplaceOrWithAnd 0": UNDEFINED,
        "ReplaceComparisonOperator_Eq_LtE 0": "a remainder is never below 0",
        "ReplaceComparisonOperator_Eq_LtE 1": COUNT_NOT_NEGATIVE,
        "ReplaceComparisonOperator_Gt_NotEq 1": "a block in a table has count 1 or more",
    },
    "04_real_cache/paged_attention": {
        "ReplaceUnaryOperator_Delete_USub 1": "q has two dimensions, so the last one is number 1",
        "ReplaceUnaryOperator_USub_UAdd 1": "the same",
    },
    "03_copy_on_write/eviction_order": {"ReplaceUnaryOperator_USub_Invert 0": "~i is -i - 1: the same order"},
}


def passes(exercise, code: str, before: str) -> bool:
    from autograder.staff.variants import load

    try:
        work = load(code, exercise.name, before)
    except Exception:
        return False
    return all(judge(exercise, record(exercise, work, thorough, "mutants"), thorough, "mutants").passed for thorough in (False, True))


@needs_sources
@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("id", [e.id for e in EXERCISES.values() if e.kind != "answers" and e.id != AGAIN])
def test_every_mutant_of_the_reference_fails_or_is_equivalent(id):
    from autograder.staff.variants import earlier, references

    reference = references(ROOT)
    made = dict(mutants(reference[id]))
    assert len(made) >= 2 or id in UNTOUCHED
    alive = {name for name, code in made.items() if passes(EXERCISES[id], code, earlier(reference, id))}
    assert alive == set(EQUIVALENT.get(id, {})), "see which mutant passes, and whether it does the same thing"


@needs_sources
def test_the_class_that_lesson_4_asks_for_again_is_lesson_3s():
    from autograder.staff.variants import references

    reference = references(ROOT)
    ours, theirs = (ast.parse(reference[id]) for id in (AGAIN, "03_copy_on_write/BlockManager"))
    for node in [*ast.walk(ours), *ast.walk(theirs)]:
        if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            del node.body[0]
    assert ast.dump(ours) == ast.dump(theirs)


@needs_sources
def test_a_promise_of_the_manager_is_what_some_wrong_variant_breaks_first():
    """The table: each promise, and the variants whose shortest broken history is about it."""
    from autograder.staff.variants import variants

    exercise = EXERCISES["03_copy_on_write/BlockManager"]
    first: dict[str, list[str]] = {id: [] for id in exercise.weights}
    for variant in variants(ROOT):
        if variant.exercise == exercise.id and not variant.right:
            verdict = judge(exercise, record(exercise, variant.load(), True, "table"), True, "table")
            shortest = verdict.broken[0].breach.length
            for broken in verdict.broken:
                if broken.breach.length == shortest:
                    first[broken.promise.id].append(variant.name)
    print("\n".join(f"{id:<26} {', '.join(names)}" for id, names in first.items()))
    assert [id for id, names in first.items() if not names] == []
