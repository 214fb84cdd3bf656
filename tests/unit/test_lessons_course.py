"""The pages of the lessons read as a course: introduced chapters, and links between lessons."""

from lessons.harness import pages
from lessons.harness.catalogue import CHAPTERS, INTRODUCTIONS


def test_every_chapter_has_an_introduction_in_the_index() -> None:
    assert list(INTRODUCTIONS) == list(CHAPTERS)
    index = " ".join(pages.pages()[pages.DOCS / "lessons.md"].split())
    for chapter, introduction in INTRODUCTIONS.items():
        assert f"## {chapter} {introduction} - [" in index


def test_a_lesson_that_a_page_mentions_is_a_link() -> None:
    page = pages.pages()[pages.DOCS / "lessons" / "sensor_sql.md"]
    assert "The files of [lesson sensor_etl](sensor_etl.md)." in page
    assert "(lesson " not in page
