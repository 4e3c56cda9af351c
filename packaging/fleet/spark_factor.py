"""How much CPU time the questions about a data set take in DuckDB and in Spark, and what Spark shuffles.

    python3 spark_factor.py DATASET [QUESTION...]

It needs `brisk` in PATH and the Python packages duckdb and pyspark. Each question is asked twice, and the second time counts: then Spark
has compiled its code. spark-submit runs it on a cluster, in client mode; otherwise Spark takes this machine's CPUs.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import duckdb
from pyspark import SparkConf
from pyspark.sql import SparkSession

QUESTIONS = ["boots", "kills", "launch_loss", "switched_on", "regressions"]


def statements(dataset, question, engine):
    """What makes the views, and then the question."""
    command = ["brisk", "fleet", "sql", dataset, question, "--engine", engine]
    script = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [statement for statement in script.split(";\n") if statement.strip()]


def duckdb_cpu_s(dataset, question):
    """CPU seconds of all its threads."""
    *views, asked = statements(dataset, question, "duckdb")
    connection = duckdb.connect()
    for view in views:
        connection.execute(view)
    for _ in range(2):
        started = time.process_time()
        connection.execute(asked).fetchall()
        took = time.process_time() - started
    return took


def spark_events(dataset, questions, folder):
    """Asks Spark, and returns what it logs; the tasks of a question's second time are in a group of its name."""
    settings = {
        "spark.master": SparkConf().get("spark.master", "local[*]"),
        "spark.ui.enabled": "false",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": Path(folder).as_uri(),
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
    }
    builder = SparkSession.builder.appName("brisk fleet")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    for question in questions:
        *views, asked = statements(dataset, question, "spark")
        for view in views:
            spark.sql(view)
        for group in (f"first {question}", question):
            spark.sparkContext.setJobGroup(group, group)
            spark.sql(asked).collect()
    spark.stop()
    for path in Path(folder).iterdir():
        if not path.name.startswith("."):
            with path.open() as log:
                yield from map(json.loads, log)


def spark_spent(events):
    """CPU seconds, and bytes and rows that were shuffled, by question."""
    questions, spent = {}, defaultdict(lambda: [0.0, 0, 0])
    for event in events:
        if event["Event"] == "SparkListenerStageSubmitted":
            questions[event["Stage Info"]["Stage ID"]] = event.get("Properties", {}).get("spark.jobGroup.id")
        elif event["Event"] == "SparkListenerTaskEnd" and event.get("Task Metrics"):
            metrics, of_question = event["Task Metrics"], spent[questions[event["Stage ID"]]]
            written = metrics["Shuffle Write Metrics"]
            of_question[0] += metrics["Executor CPU Time"] / 1e9
            of_question[1] += written["Shuffle Bytes Written"]
            of_question[2] += written["Shuffle Records Written"]
    return spent


def main(dataset, *questions):
    questions = questions or QUESTIONS
    # Before Spark: it takes the same CPUs.
    by_duckdb = {question: duckdb_cpu_s(dataset, question) for question in questions}
    with tempfile.TemporaryDirectory() as folder:
        by_spark = spark_spent(spark_events(dataset, questions, folder))
    print(f"{'question':12} {'DuckDB CPU s':>12} {'Spark CPU s':>12} {'factor':>7} {'shuffled MB':>12} {'shuffled rows':>14}")
    for question in questions:
        cpu_s, shuffled_bytes, shuffled_rows = by_spark[question]
        factor = cpu_s / by_duckdb[question]
        sizes = f"{shuffled_bytes / 1e6:12.1f} {shuffled_rows:14}"
        print(f"{question:12} {by_duckdb[question]:12.2f} {cpu_s:12.2f} {factor:7.1f} {sizes}")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(*sys.argv[1:])
