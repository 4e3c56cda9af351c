// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.util.Arrays;
import java.util.Locale;
import java.util.stream.Collectors;

/** The summary of a plan, for users or programs. */
final class Summary {
    private static final int SCHEMA = 1;
    /** The number of unknown classes in the text; JSON has all of them. */
    private static final int NAMED = 10;

    private Summary() {}

    static String text(Planner.Result result, Schedule.Speedup speedup, int[] threads) {
        Planner.Statistics about = result.statistics();
        StringBuilder text = new StringBuilder();
        line(text, "%d classes of the list, %d of them unknown to the jars; %d more were observed", about.listed(),
                about.unknown().size(), about.observed());
        about.unknown().stream().limit(NAMED).forEach(name -> line(text, "  unknown: %s", name.replaceAll("\\p{Cntrl}", "?")));
        if (about.unknown().size() > NAMED) {
            line(text, "  and %d more", about.unknown().size() - NAMED);
        }
        line(text, "%d tasks; the largest has %d classes, %d classes are in cycles", about.tasks(), about.largestTask(),
                about.inCycles());
        line(text, "%d tasks are exclusive: they may enter one of %d cycles that no recording shows", about.exclusive(),
                about.unplannedCycles());
        line(text, "read %d classes and %d methods; %d classes have a measured cost", about.classes(),
                about.methods(), about.measured());
        line(text, "one thread %.1f ms, the critical path %.1f ms", result.schedule().total() / 1000,
                result.schedule().longestWay() / 1000);
        for (int count : threads) {
            double predictedUs = result.predictedUs(count, speedup);
            line(text, "predicted on %d threads: %.1f ms (%+.1f %%)", count, predictedUs / 1000,
                    100 * (predictedUs / result.schedule().total() - 1));
        }
        return text.toString();
    }

    static String json(Planner.Result result, Schedule.Speedup speedup, int[] threads) {
        Planner.Statistics about = result.statistics();
        String predictions = Arrays.stream(threads).mapToObj(count -> String.format(Locale.ROOT,
                "{\"threads\": %d, \"ms\": %.3f}", count, result.predictedUs(count, speedup) / 1000))
                .collect(Collectors.joining(", "));
        String unknown = about.unknown().stream().map(Summary::quoted).collect(Collectors.joining(", "));
        return String.format(Locale.ROOT, """
                {
                  "schema": %d,
                  "listed": %d,
                  "unknown": %d,
                  "unknown_classes": [%s],
                  "observed_beyond_list": %d,
                  "measured": %d,
                  "tasks": %d,
                  "largest_task": %d,
                  "classes_in_cycles": %d,
                  "exclusive_tasks": %d,
                  "cycles_not_planned": %d,
                  "classes_looked_into": %d,
                  "methods_looked_into": %d,
                  "sequential_ms": %.3f,
                  "longest_way_ms": %.3f,
                  "speedup_of_two": %.3f,
                  "predicted": [%s]
                }
                """, SCHEMA, about.listed(), about.unknown().size(), unknown, about.observed(), about.measured(), about.tasks(),
                about.largestTask(), about.inCycles(), about.exclusive(), about.unplannedCycles(), about.classes(),
                about.methods(), result.schedule().total() / 1000, result.schedule().longestWay() / 1000, speedup.ofTwo(),
                predictions);
    }

    /** {@code name}, which may contain any character, as a JSON string. */
    private static String quoted(String name) {
        StringBuilder text = new StringBuilder("\"");
        for (char letter : name.toCharArray()) {
            if (letter == '"' || letter == '\\') {
                text.append('\\').append(letter);
            } else if (letter < ' ') {
                text.append(String.format(Locale.ROOT, "\\u%04x", (int) letter));
            } else {
                text.append(letter);
            }
        }
        return text.append('"').toString();
    }

    private static void line(StringBuilder text, String format, Object... values) {
        text.append(String.format(Locale.ROOT, format, values)).append('\n');
    }
}
