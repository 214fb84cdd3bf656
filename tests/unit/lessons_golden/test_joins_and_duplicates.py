"""Golden figures of the lessons on joins and duplicates."""

from tests.unit.lessons_golden.output import Output, Rows, golden


@golden("static_join")
def test_a_stream_joined_with_a_table_must_be_the_side_that_is_kept(output: Output) -> None:
    known = [("camera", "b", "lux"), ("thermometer", "a", "°C")]
    assert output["inner"].batches == {0: known}
    left_outer = output["left_outer"]
    assert left_outer.batches == {0: [*known, ("unheard of", "c", None)]}
    assert left_outer.outcomes == {
        "stream right_outer table": "refused",
        "table left_outer stream": "refused",
        "table right_outer stream": "allowed",
        "stream full_outer table": "refused",
        "stream left_semi table": "allowed",
        "stream left_anti table": "allowed",
    }


@golden("stream_join")
def test_matches_come_at_once_and_rows_without_one_when_the_watermark_has_passed(
    output: Output,
) -> None:
    first: Rows = [(1, "10:00:00", 1, "10:00:00"), (1, "10:00:00", 1, "11:00:00")]
    second: Rows = [(1, "10:30:00", 1, "11:00:00"), (3, "10:10:00", 3, "10:30:00")]
    not_clicked: Rows = [(2, "10:05:00", None, None)]
    not_shown: Rows = [(None, None, 2, "11:05:01"), (None, None, 9, "10:15:00")]
    for how, last in {
        "inner": [],
        "left_outer": not_clicked,
        "right_outer": not_shown,
        "full_outer": not_clicked + not_shown,
    }.items():
        assert output[how].batches == {0: first, 1: second, 2: [], 3: last}
    clicked = output["left_semi"].batches
    assert clicked == {0: [(1, "10:00:00")], 1: [(1, "10:30:00"), (3, "10:10:00")], 2: [], 3: []}


@golden("join_requirements")
def test_an_outer_join_needs_a_bound_and_the_watermark_of_the_side_it_waits_for(
    output: Output,
) -> None:
    types = ("inner", "left_outer", "right_outer", "full_outer", "left_semi", "left_anti")
    ok = "allowed"
    (table,) = (section for section in output.sections if not section.heading)
    assert table.columns == types
    assert table.rows == [
        ("no watermark", ok, "[1]", "[2]", "[3]", "[4]", "[5]"),
        ("watermarks, no bound", ok, "[1]", "[2]", "[3]", "[4]", "[5]"),
        ("equal times, both watermarks", ok, ok, ok, ok, ok, "[5]"),
        ("bound, watermark on impressions", ok, "[1]", ok, ok, "[4]", "[5]"),
        ("bound, watermark on clicks", ok, ok, "[2]", ok, ok, "[5]"),
        ("bound, both watermarks", ok, ok, ok, ok, ok, "[5]"),
        ("the same in update mode", ok, "[6]", "[7]", "[8]", ok, "[5]"),
        ("the same in complete mode", "[9]", "[9]", "[9]", "[9]", "[9]", "[9]"),
    ]


@golden("join_requirements")
def test_each_number_stands_for_a_refusal_with_its_reason(output: Output) -> None:
    reasons = {name: why for name, _, why in (h.partition(" refused, ") for h in output.headings)}
    types = ("LeftOuter", "RightOuter", "FullOuter", "LeftSemi")
    for number, how in enumerate(types, 1):
        assert reasons[f"[{number}]"].startswith(f"Stream-stream {how} join")
        assert "without a watermark" in reasons[f"[{number}]"]
    assert reasons["[5]"].startswith("LeftAnti joins with a streaming")
    for number, how in enumerate(types[:3], 6):
        assert reasons[f"[{number}]"].startswith(f"{how} join")
        assert "not supported in Update output mode" in reasons[f"[{number}]"]
    assert reasons["[9]"].endswith("Invalid streaming output mode: complete")


@golden("duplicates")
def test_a_copy_with_another_time_is_another_event_unless_compared_within_the_watermark(
    output: Output,
) -> None:
    g1, g2, g3 = ("g1", "10:00:00"), ("g2", "10:01:00"), ("g3", "10:02:00")
    copies = [("g1", "10:00:03"), ("g1", "10:02:01"), ("g1", "10:04:00")]
    by_guid = {0: [g1], 1: [g2], 2: [g3], 3: []}
    assert output["guid"].batches == by_guid
    by_both = {0: [g1, copies[0]], 1: [g2], 2: [copies[1], g3], 3: [copies[2]]}
    assert output["guid and eventTime"].batches == by_both
    assert output["guid and eventTime, watermark 10 s"].batches == by_both | {4: []}
    within = output["guid within the watermark of 10 s"].batches
    assert within == by_guid | {3: [copies[2]], 4: []}


@golden("duplicates")
def test_only_a_watermark_removes_ids_from_the_state(output: Output) -> None:
    rows_in = [3, 2, 2, 1]
    for keys, state_rows in (("guid", [1, 2, 3, 3]), ("guid and eventTime", [2, 3, 5, 6])):
        assert output[keys].progress == [
            (batch, rows, "none", 0, kept)
            for batch, (rows, kept) in enumerate(zip(rows_in, state_rows, strict=True))
        ]
    watermarks = (
        "1970-01-01 00:00:00",
        "2018-03-02 09:59:53",
        "2018-03-02 10:00:50",
        "2018-03-02 10:01:51",
        "2018-03-02 10:03:50",
    )
    for keys, state_rows in (
        ("guid and eventTime, watermark 10 s", [2, 3, 3, 3, 1]),
        ("guid within the watermark of 10 s", [1, 2, 2, 2, 1]),
    ):
        assert output[keys].progress == [
            (batch, rows, watermark, 0, kept)
            for batch, (rows, watermark, kept) in enumerate(
                zip([*rows_in, 0], watermarks, state_rows, strict=True)
            )
        ]
