# Runs each script of this folder in Spark with two workers; the last statement of a script is the question.
import glob
import json
import os

from pyspark.sql import SparkSession

builder = SparkSession.builder.master("local[2]").appName("brisk fleet")
builder = builder.config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "4")
spark = builder.config("spark.driver.bindAddress", "127.0.0.1").getOrCreate()
answers = {}
for path in sorted(glob.glob("*.sql")):
    with open(path) as script:
        statements = [statement for statement in script.read().split(";\n") if statement.strip()]
    for statement in statements[:-1]:
        spark.sql(statement)
    rows = [row.asDict() for row in spark.sql(statements[-1]).collect()]
    answers[os.path.splitext(path)[0]] = {"rows": rows}
print(json.dumps(answers, default=float))
spark.stop()
