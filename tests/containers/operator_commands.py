"""Test the commands that the docs tell operators to run in the containers of the default."""

import re
import shlex

from tests.support import ROOT

PAGES = ("README.md", "docs/*.md", "deploy/monitoring/rules.yml")
OPEN_INCIDENT = "ID"
"""The word in a command that stands for the ID of an open incident."""
_IN_A_BLOCK = re.compile(r"^ *(?:\$ )?docker compose exec (.+)$", re.MULTILINE)
_IN_A_SENTENCE = re.compile(r"`docker\s+compose\s+exec\s+([^`]+)`")


def operator_commands() -> list[list[str]]:
    """Return what follows `docker compose exec` in the documented commands, each once."""
    return commands_in(
        "\n".join(
            path.read_text(encoding="utf-8") for page in PAGES for path in sorted(ROOT.glob(page))
        )
    )


def commands_in(text: str) -> list[list[str]]:
    """Return the words of the commands in code blocks and in sentences, each command once."""
    found = [*_IN_A_BLOCK.findall(text), *_IN_A_SENTENCE.findall(text)]
    return [list(words) for words in dict.fromkeys(tuple(shlex.split(one)) for one in found)]
