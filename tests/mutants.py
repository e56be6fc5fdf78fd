"""Every mutant that Cosmic Ray's operators make of a reference solution."""

from __future__ import annotations

from collections.abc import Iterator

from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names


def mutants(code: str) -> Iterator[tuple[str, str]]:
    """(name, mutated code): the operator's name with its occurrence. Mutants with the same text come once."""
    seen = {code}
    for name in sorted(operator_names()):
        if name.startswith("core/Variable"):
            continue  # these want to be told names of variables
        operator = get_operator(name)()
        occurrence = 0
        while (mutated := mutate_code(code.encode(), operator, occurrence)) is not None:
            text = mutated.decode() if isinstance(mutated, bytes) else mutated
            if text not in seen:
                seen.add(text)
                yield f"{name.removeprefix('core/')} {occurrence}", text
            occurrence += 1
