"""Test the jobs' tables in a local Spark session, without a broker."""
