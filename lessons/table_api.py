"""Tables: write a stream with `toTable`, read one with `readStream.table`.

A table has a name in the catalog, so neither query has to know the location or format of its files.
Here the rate source writes ten rows per second into one table, and a second query copies the even
ones into another.

Data: None: the rate source generates its rows.
Notice: The second query reads the files of the first table as they are committed. SQL can query the
table at any time.
In production: The jobs are connected by topics instead, which keep an order and let every reader go
at its own speed. `archive` writes Parquet files by path, without a table.
"""

from collections.abc import Iterator

from lessons.harness.context import LessonContext, wait_until


def run(context: LessonContext) -> Iterator[str]:
    """Write a table at ten rows per second, and a second table from it."""
    spark = context.spark
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    rate.writeStream.option("path", context.path("all_rows")).toTable("all_rows")
    even = (
        spark.readStream.table("all_rows")
        .where("value % 2 = 0")
        .selectExpr("value", "value DIV 2 AS half")
    )
    even.writeStream.option("path", context.path("even_rows")).format("parquet").toTable(
        "even_rows"
    )
    wait_until(lambda: spark.table("even_rows").count() >= 10)
    for query in spark.streams.active:
        query.stop()
    for name in ("all_rows", "even_rows"):
        values = [row.value for row in spark.table(name).orderBy("value").limit(10).collect()]
        columns = ", ".join(" ".join(pair) for pair in spark.table(name).dtypes)
        yield f"{name}: {columns}; first values {values}"
