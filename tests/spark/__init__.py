"""Tests of the jobs' tables in a local Spark session: no broker."""
