# Run by `brisk fleet` with the questions on standard input; each answer is a line of JSON.
import json
import os
import sys
import time

import duckdb

# Run by `python3 -c`, DuckDB takes itself to be interactive and prints the progress of a long query: not between the answers.
answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
asked = json.load(sys.stdin)
connection = duckdb.connect()
connection.execute(asked["views"])
for question in asked["questions"]:
    started = time.monotonic()
    result = connection.execute(question["sql"])
    names = [column[0] for column in result.description]
    rows = [dict(zip(names, row)) for row in result.fetchall()]
    print(json.dumps({"rows": rows, "seconds": time.monotonic() - started}, default=float), file=answers, flush=True)
