// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

import brisk.preload.PreloadPlan;

/** Writes a plan in the format of the preloader. */
public final class PlanWriter {
    private PlanWriter() {}

    /** The lines of the plan. */
    public static List<String> lines(Planner.Result result) {
        List<String> lines = new ArrayList<>();
        lines.add(PreloadPlan.HEADER);
        result.jars().forEach((name, print) -> lines.add("jar " + print + " " + name));
        lines.add("list " + Long.toHexString(result.list().checksum()));
        Map<String, Integer> numbers = new HashMap<>();
        result.list().names().forEach(name -> numbers.put(name, numbers.size()));
        result.plan().tasks().forEach(task -> lines.add(line(task, numbers)));
        lines.add("end " + result.plan().tasks().size());
        return lines;
    }

    /** A listed class is written as its index in the list, which takes a fifth of its name's time to read. */
    private static String line(PreloadPlan.Task task, Map<String, Integer> numbers) {
        String dependencies = Arrays.stream(task.dependencies()).mapToObj(Integer::toString).collect(Collectors.joining(","));
        List<String> words = new ArrayList<>();
        words.add(task.isResources() ? "resources" : "task");
        words.add(task.exclusive() ? "exclusive" : "free");
        words.add(dependencies.isEmpty() ? "-" : dependencies);
        for (String name : task.classes()) {
            words.add(numbers.containsKey(name) ? numbers.get(name).toString() : name);
        }
        return String.join(" ", words);
    }

    /** Writes the plan to {@code path}. */
    public static void write(Planner.Result result, Path path) {
        try {
            Files.write(path, lines(result));
        } catch (IOException e) {
            throw new UncheckedIOException("cannot write " + path + ": " + Reason.of(e), e);
        }
    }
}
