"""The report beyond marks: what was predicted, and submissions that are alike, which is evidence and no verdict."""

import json

import pytest

from autograder.prompts.questions import of_lesson
from autograder.staff import alike, guessed, study

LESSON = "01_contiguous_vs_paged"

TEMPLATE = '''
class Pool:
    """Write this class."""

    def take(self, many):
        raise NotImplementedError("write this part")

    def give_back(self, blocks):
        raise NotImplementedError("write this part")
'''
ONE = '''
class Pool:
    def take(self, many):
        found = []
        for candidate in range(self.total):
            if candidate not in self.used and len(found) < many:
                found.append(candidate)
        if len(found) < many:
            raise MemoryError(f"{many} wanted, {len(found)} there")
        self.used |= set(found)
        self.history.append(("take", tuple(found)))
        return found

    def give_back(self, blocks):
        while blocks:
            last = blocks.pop()
            assert last in self.used, "nobody has it"
            self.used.discard(last)
            self.history.append(("give", last))
'''
COPIED = '''
# my own work
class Pool:

    def take(self, n):

        result = []    # what is free
        for block in range(self.size):
            if block not in self.busy and len(result) < n:
                result.append(block)
        if len(result) < n:
            raise MemoryError(f"no {n} blocks, {len(result)} free")
        self.busy |= set(result)
        self.log.append(("took", tuple(result)))
        return result

    def give_back(self, given):
        while given:
            b = given.pop()
            assert b in self.busy, "who?"
            self.busy.discard(b)
            self.log.append(("gave", b))
'''
OTHER = '''
import heapq

class Pool:
    def take(self, many):
        if many > len(self.heap):
            raise MemoryError
        return [heapq.heappop(self.heap) for _ in range(many)]

    def give_back(self, blocks):
        for number in sorted(blocks):
            heapq.heappush(self.heap, number)
'''
FOURTH = '''
class Pool:
    def take(self, many):
        taken, self.free = self.free[:many], self.free[many:]
        if len(taken) != many:
            self.free = taken + self.free
            raise MemoryError("full")
        return taken

    def give_back(self, blocks):
        self.free = sorted(self.free + list(blocks))
'''


def test_a_copy_under_other_names_is_found_with_its_passages_and_nothing_else_is():
    (pair,) = alike.pairs({"ada": ONE, "bo": COPIED, "cy": OTHER, "di": FOURTH}, TEMPLATE)
    assert (pair.one, pair.other) == ("ada", "bo") and pair.share > 0.8
    left, right = ("\n".join(passages) for passages in zip(*pair.passages, strict=True))
    assert "for candidate in range(self.total):" in left and "for block in range(self.size):" in right
    assert all(line in ONE.split("\n") for line in left.split("\n")) and all(line in COPIED.split("\n") for line in right.split("\n"))


def test_what_the_template_gives_and_what_many_have_is_no_evidence():
    assert alike.pairs({"ada": TEMPLATE, "bo": TEMPLATE}, TEMPLATE) == []
    assert alike.pairs({"ada": "", "bo": "", "cy": "(((", "di": "\x00"}, TEMPLATE) == []
    many = {f"s{n}": ONE for n in range(6)}
    assert alike.pairs(many, TEMPLATE) == []
    assert len(alike.pairs({"s0": ONE, "s1": ONE}, TEMPLATE)) == 1


def handed_in(tmp_path, student, entries):
    folder = tmp_path / student
    folder.mkdir()
    (folder / "predictions.json").write_text(entries if isinstance(entries, str) else json.dumps(entries))
    return folder


def entry(answer, at):
    return {"answer": answer, "at": f"2026-10-12T{at}+02:00"}


def test_first_answers_are_counted_beside_the_outcome_and_time_leaves_breaks_out(tmp_path):
    asked = next(q for q in of_lesson(LESSON, "predict") if q.id == "boundary")
    right, wrong = {"now": 2, "after_12": 2, "after_13": 3}, {"now": 2, "after_12": 3, "after_13": 3}
    folders = [
        handed_in(tmp_path, "ada", {"boundary": [entry(right, "14:00:00")]}),
        handed_in(tmp_path, "bo", {"boundary": [entry(wrong, "14:00:00"), entry(right, "14:30:00")], "seven": [entry({"x": 1}, "23:30:00")]}),
        handed_in(tmp_path, "cy", {"boundary": [entry(wrong, "10:00:00")]}),
        *(handed_in(tmp_path, f"damaged{n}", text) for n, text in enumerate(("", "[]", "{", '{"boundary": 7}', '{"boundary": [7, {}, {"answer": []}]}', "[" * 100_000))),
        tmp_path / "nobody",
    ]  # fmt: skip
    found = guessed.guesses(LESSON, folders)
    prompt = next(p for p in found.prompts if p.title == asked.title)
    assert (prompt.committed, prompt.changed) == (3, 1)
    by = {answers.label: answers for answers in prompt.fields}
    labels = {field.key: field.label for field in asked.fields}
    assert by[labels["now"]].right == 3 and by[labels["after_12"]].right == 1 and by[labels["after_12"]].wrong == [("3", 2)]
    assert found.minutes == 30    # the nine hours until the next are a break


@pytest.mark.parametrize(("shares", "words"), [([0.0, 0.04, 1.0, 1.0, 0.95], "2 at 0 to 10 percent, 3 at 90 to 100 percent"), ([0.5], "1 at 50 to 60 percent")])
def test_the_picture_of_the_marks_says_in_words_what_it_shows(shares, words):
    address, said = study.marks(shares)
    assert words in said and address.startswith("data:image/svg+xml;base64,")
