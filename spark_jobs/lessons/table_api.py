"""Tables: a stream into a table with `toTable`, and a stream out of it with `readStream.table`.

A table has a name in the catalog, so neither query says where or in which format the rows lie. Here ten rows a second
go into one table, and the even ones from there into a second.

Data: None: the rate source makes its rows.
Notice: The second query reads the first table's files as they are committed. A table that is written by a stream can
be asked with SQL at any time.
In production: The jobs are connected by topics instead, which keep an order and let many read at their own pace.
"""

from collections.abc import Iterator

from spark_jobs.lessons.frame.lab import Lab, wait_until


def run(lab: Lab) -> Iterator[str]:
    """Fill a table at ten rows a second, and a second from it."""
    spark = lab.spark
    rate = spark.readStream.format("rate").option("rowsPerSecond", 10).load()
    rate.writeStream.option("path", lab.path("all_rows")).toTable("all_rows")
    even = (
        spark.readStream.table("all_rows").where("value % 2 = 0").selectExpr("value", "value DIV 2 AS half")
    )
    even.writeStream.option("path", lab.path("even_rows")).format("parquet").toTable("even_rows")
    wait_until(lambda: spark.table("even_rows").count() >= 10)
    for query in spark.streams.active:
        query.stop()
    for name in ("all_rows", "even_rows"):
        values = [row.value for row in spark.table(name).orderBy("value").limit(10).collect()]
        yield f"{name}: {', '.join(' '.join(pair) for pair in spark.table(name).dtypes)}; first values {values}"
