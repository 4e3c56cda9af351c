// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The initialisers of a sequential preload, in the order in which they began, and the initialiser during which each began;
 * names with dots. They show what class files hide: reflection, native code, call-backs.
 */
public record Observations(List<String> order, Map<String, String> causes) {
    /** No observations. */
    public static final Observations NONE = new Observations(List.of(), Map.of());

    /** Reads a class and its cause (or {@code -}) per line. */
    public static Observations read(Path path) throws IOException {
        List<String> order = new ArrayList<>();
        Map<String, String> causes = new LinkedHashMap<>();
        for (String line : Files.readAllLines(path)) {
            String[] words = line.split(" ");
            if (words.length != 2) {
                throw new IOException(path + ": not a class and its cause: " + line);
            }
            order.add(words[0]);
            if (!words[1].equals("-")) {
                causes.put(words[0], words[1]);
            }
        }
        return new Observations(order, causes);
    }

    /** Writes the format that {@link #read} reads. */
    public void write(Path path) throws IOException {
        Files.write(path, order.stream().map(name -> name + " " + causes.getOrDefault(name, "-")).toList());
    }
}
