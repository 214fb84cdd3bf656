"""The world and its readings are functions of seed and number, and cool without faults."""

import dataclasses

import numpy as np
import pytest

from events.inventory import read_inventory, write_inventory
from producer.hashing import one_in_each_block, uniform
from producer.pacing.schedule import Schedule
from producer.streams.reading_plan import ReadingPlan
from producer.streams.readings import Readings, draw_readings
from producer.world.racks import RACKS_PER_ROW, World, make_world
from tests.builders import T0

DAY_OF_READINGS = Schedule(
    rate=1.0, paced=True, start_wall_ms=T0, start_event_ms=T0, time_scale=10.0
)


def numbers(start: int, stop: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.arange(start, stop, dtype=np.int64)


def same(one: Readings, other: Readings) -> bool:
    fields = [field.name for field in dataclasses.fields(Readings)]
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in fields)


def cut(readings: Readings, start: int, stop: int) -> Readings:
    return Readings(
        *(getattr(readings, field.name)[start:stop] for field in dataclasses.fields(Readings))
    )


def test_any_slice_can_be_drawn_without_the_ones_before() -> None:
    world = make_world(5, 40)
    whole = draw_readings(world, DAY_OF_READINGS, 1, numbers(0, 5000))
    for start, stop in ((0, 1), (17, 18), (39, 41), (1234, 4321), (4999, 5000)):
        assert same(
            draw_readings(world, DAY_OF_READINGS, 1, numbers(start, stop)), cut(whole, start, stop)
        )
    backwards = draw_readings(world, DAY_OF_READINGS, 1, numbers(0, 5000)[::-1])
    assert np.array_equal(backwards.temperature[::-1], whole.temperature)


def test_the_seed_determines_world_and_readings() -> None:
    one, again, other = make_world(5, 40), make_world(5, 40), make_world(6, 40)
    assert one.sites == again.sites != other.sites
    readings = [
        draw_readings(world, DAY_OF_READINGS, 1, numbers(0, 1000)) for world in (one, again, other)
    ]
    assert same(readings[0], readings[1])
    assert not np.array_equal(readings[0].temperature, readings[2].temperature)


def test_random_numbers_are_uniform_and_independent_of_their_neighbours() -> None:
    drawn = uniform(1, "any", numbers(0, 100_000))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert np.abs(np.histogram(drawn, 10)[0] - 10_000).max() < 400  # four standard deviations
    assert abs(float(np.corrcoef(drawn[1:], drawn[:-1])[0, 1])) < 0.02
    assert abs(float(np.corrcoef(drawn, uniform(2, "any", numbers(0, 100_000)))[0, 1])) < 0.02
    assert abs(float(np.corrcoef(drawn, uniform(1, "other", numbers(0, 100_000)))[0, 1])) < 0.02
    assert uniform(1, "any", numbers(0, 3)).tolist() == [
        0.6640493025561073,
        0.7160160888235019,
        0.3596368065220945,
    ]


@pytest.mark.parametrize("share", [1.0, 0.5, 0.3, 0.01, 0.0007])
def test_a_share_of_readings_is_one_in_each_block(share: float) -> None:
    chosen, blocks = one_in_each_block(share, 1, "any", numbers(0, 20_000))
    assert np.array_equal(np.unique(blocks[chosen]), np.arange(chosen.sum()))
    assert abs(int(chosen.sum()) - 20_000 * share) <= 1


def test_each_racks_sequence_has_no_gaps() -> None:
    readings = draw_readings(make_world(1, 7), DAY_OF_READINGS, 1000, numbers(0, 70))
    for rack in range(7):
        assert readings.sequences[readings.racks == rack].tolist() == list(range(1000, 1010))


def test_without_faults_a_day_of_readings_stays_well_below_every_threshold() -> None:
    world = make_world(3, 200)
    readings = draw_readings(world, DAY_OF_READINGS, 1, numbers(0, 8640 * 2))
    assert (world.threshold[readings.racks] - readings.temperature).min() >= 500
    assert readings.temperature.min() > 2000
    assert readings.signal.min() >= 0
    assert readings.signal.max() <= 1000


def test_temperatures_follow_the_day_and_move_together_in_a_row() -> None:
    world = make_world(3, 20, sites=2)
    schedule = Schedule(rate=20.0, paced=True, start_wall_ms=T0, start_event_ms=T0, time_scale=60.0)
    readings = draw_readings(world, schedule, 1, numbers(0, 20 * 1440))
    celsius = readings.temperature.reshape(1440, 20) / 100
    assert np.ptp(celsius.mean(axis=1).reshape(24, 60).mean(axis=1)) > 2
    steps = np.diff(celsius, axis=0)
    together = float(np.corrcoef(steps[:, 0], steps[:, 1])[0, 1])
    apart = float(np.corrcoef(steps[:, 0], steps[:, 15])[0, 1])
    assert together > 0.3 and abs(apart) < 0.15


@pytest.mark.parametrize(("racks", "sites"), [(1, None), (7, None), (40, 4), (1003, 3), (3, 50)])
def test_a_row_lies_in_one_site_and_has_at_most_ten_racks(racks: int, sites: int | None) -> None:
    world = make_world(1, racks, sites)
    assert len(world.rack_ids) == racks
    assert set(world.site.tolist()) == set(range(len(world.sites)))
    for row in np.unique(world.row):
        assert len(set(world.site[world.row == row].tolist())) == 1
        assert (world.row == row).sum() <= RACKS_PER_ROW
        assert len(set(world.device[world.row == row].tolist())) == 1


def test_a_million_racks_have_distinct_ids() -> None:
    world = make_world(1, 1_000_000)
    assert (world.rack_ids[0], world.rack_ids[-1]) == ("rack-0001", "rack-1000000")
    assert len(set(world.rack_ids)) == 1_000_000


def test_the_inventory_lists_the_worlds_racks(tmp_path_factory: pytest.TempPathFactory) -> None:
    world: World = make_world(1, 40)
    path = tmp_path_factory.mktemp("inventory") / "of" / "racks.jsonl"
    write_inventory(path, world.inventory(5.0))
    racks = read_inventory(path)
    assert [rack.rack_id for rack in racks] == world.rack_ids
    assert [rack.threshold_c for rack in racks] == (world.threshold / 100).tolist()
    assert {rack.readings_per_second for rack in racks} == {5.0}
    assert len({rack.site_id for rack in racks}) == 4


def test_two_runs_have_no_event_in_common() -> None:
    world = make_world(1, 2)
    ids = set()
    for first_sequence in (1, 2):
        plan = ReadingPlan(world, DAY_OF_READINGS, (), first_sequence)
        ids |= {record.event_id for record in plan.records(numbers(0, 10))}
    assert len(ids) == 20
