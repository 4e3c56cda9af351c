# Run by `brisk fleet` with the questions on standard input; each answer is a line of JSON.
import json
import sys
import time

import duckdb

asked = json.load(sys.stdin)
connection = duckdb.connect()
# Run by `python3 -c`, DuckDB takes itself to be interactive, and draws the progress of a long query between the answers.
connection.execute("SET enable_progress_bar = false")
connection.execute(asked["views"])
for question in asked["questions"]:
    started = time.monotonic()
    result = connection.execute(question["sql"])
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row)) for row in result.fetchall()]
    print(json.dumps({"rows": rows, "seconds": time.monotonic() - started}, default=float), flush=True)
