"""A lesson's `questions.toml` → the covered prompts that lessons and pages show, and the book's page of outcomes."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

from autograder.prompts.seal import seal
from autograder.staff import derive

FILE = "questions.toml"
FOLDER = Path("autograder", "prompts")
KINDS = ("predict", "ask")
FIELD_KINDS = ("number", "choice", "list", "order", "words")
CALL = re.compile(r"\b(predict|ask)\(\s*[\"']([^\"']+)[\"']")


def source_of(root: Path, lesson: str) -> Path:
    return root / derive.SOURCE / lesson / FILE


def read(path: Path) -> list[dict]:
    """The questions of a file, in order; ValueError names the question and what is wrong with it."""
    if not path.is_file():
        return []
    try:
        found = tomllib.loads(path.read_text("utf-8")).get("question", [])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"cannot be read: {error}") from None
    for question in found:
        if fault := _fault(question):
            raise ValueError(f"question {question.get('id')!r}: {fault}")
    ids = [question["id"] for question in found]
    if twice := {id for id in ids if ids.count(id) > 1}:
        raise ValueError(f"question {min(twice)!r} is there twice")
    return found


def _fault(question: dict) -> str | None:
    for key in ("id", "kind", "title", "field"):
        if not question.get(key):
            return f"it has no {key}"
    if question["kind"] not in KINDS:
        return f"its kind is none of {', '.join(KINDS)}"
    if question["kind"] == "predict" and not question.get("reveal"):
        return "a prediction needs a reveal"
    return next(filter(None, map(_field_fault, question["field"])), None)


def _field_fault(field: dict) -> str | None:
    name = field.get("key")
    if not name or not field.get("label") or field.get("kind") not in FIELD_KINDS:
        return f"field {name!r} needs a key, a label and a kind ({', '.join(FIELD_KINDS)})"
    rights, options = _rights(field), field.get("options", [])
    wrong = [entry.get("answer") for entry in field.get("wrong", [])]
    if field["kind"] in ("choice", "order") and not options:
        return f"field {name!r} has no options"
    if field["kind"] == "choice" and (stray := [a for a in rights + wrong if a not in options]):
        return f"field {name!r}: {stray[0]!r} is none of its options"
    if field["kind"] == "order" and any(not set(a) <= set(range(1, len(options) + 1)) for a in rights + wrong):
        return f"field {name!r}: an order names lines by their numbers, 1 to {len(options)}"
    if both := [a for a in wrong if a in rights]:
        return f"field {name!r}: {both[0]!r} is both right and wrong"
    if rights and not (field.get("otherwise") or field["kind"] == "choice" and len(wrong) == len(options) - 1):
        return f"field {name!r} needs an `otherwise`, for wrong answers that nobody foresaw"
    return None


def _rights(field: dict) -> list:
    return [field["right"], *field.get("also", [])] if "right" in field else []


def usage_faults(path: Path, questions: list[dict], text: str) -> list[str]:
    """Prompts that the lesson's text calls and the file lacks, or the other way round."""
    called = CALL.findall(text)
    there = [(q["kind"], q["id"]) for q in questions]
    faults = [f"{kind}({id!r}) is called, and {path.name} has no such question" for kind, id in called if (kind, id) not in there]
    faults += [f"{path.name}: the lesson never calls {kind}({id!r})" for kind, id in there if (kind, id) not in called]
    return faults + [f"{kind}({id!r}) is called twice" for kind, id in sorted({c for c in called if called.count(c) > 1})]


def covered(questions: list[dict]) -> bytes:
    """What `autograder/prompts/LESSON.json` holds."""
    out = [
        {
            "id": q["id"],
            "kind": q["kind"],
            "title": q["title"],
            "fields": [{"key": f["key"], "label": f["label"], "kind": f["kind"], "options": f.get("options", [])} for f in q["field"]],
            "covered": seal(q["id"], {"outcomes": {f["key"]: _outcome(f) for f in q["field"]}, "reveal": q.get("reveal", "").strip(), "html": _html(q.get("reveal", ""))}),
        }
        for q in questions
    ]
    return (json.dumps(out, indent=1, ensure_ascii=False) + "\n").encode()


def _outcome(field: dict) -> dict:
    return {
        "right": _rights(field),
        "within": field.get("within", 0.0),
        "wrong": [[entry["answer"], entry["say"]] for entry in field.get("wrong", [])],
        "otherwise": field.get("otherwise", ""),
    }


def _html(markdown: str) -> str:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("table").render(markdown)


def outcomes_page(root: Path, lessons: list[str]) -> str:
    """All outcomes as one page: for paper, and for readers without scripts."""
    lines = [
        "# Outcomes of the prompts",
        "",
        "The lessons ask before they tell, and show each outcome once you have answered. This page has them all for those who read",
        "on paper or without scripts. Write your answer down before you look one up: it is the being wrong first that teaches.",
        "",
    ]
    for lesson in lessons:
        questions = read(source_of(root, lesson))
        if questions:
            lines += [f"## [{lesson.replace('_', ' ')}](../notebooks/{lesson}/{lesson}.ipynb)", ""]
        for question in questions:
            lines += [f"(outcome-{question['id']})=", f"### {question['title']}", ""]
            for field in question["field"]:
                lines += _field_lines(field)
            lines += ["", question.get("reveal", "").strip(), ""]
    return "\n".join(lines)


def _field_lines(field: dict) -> list[str]:
    if "right" not in field:
        return [f"- {field['label']}: {field.get('otherwise', '')}".rstrip()]
    right = field["right"]
    if field["kind"] == "order":
        return [f"- {field['label']}:", *(f"    {n}. {field['options'][at - 1]}" for n, at in enumerate(right, 1))]
    lines = [f"- {field['label']}: **{', '.join(map(str, right)) if isinstance(right, list) else right}**"]
    return lines + [f"    - *{', '.join(map(str, entry['answer'])) if isinstance(entry['answer'], list) else entry['answer']}*: {entry['say']}" for entry in field.get("wrong", [])]
