// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.File;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A command line: {@code --name value}, {@code --flag}, and other arguments. */
public final class Options {
    private final Map<String, String> mValues = new LinkedHashMap<>();
    private final List<String> mRest = new ArrayList<>();

    /**
     * Parses {@code arguments}; {@code valued} and {@code flags} are the known names, without dashes.
     *
     * @throws IllegalArgumentException if an option is unknown, or its value is missing
     */
    public Options(List<String> arguments, Set<String> valued, Set<String> flags) {
        for (int i = 0; i < arguments.size(); i++) {
            String argument = arguments.get(i);
            String name = argument.startsWith("--") ? argument.substring(2) : null;
            if (name == null) {
                mRest.add(argument);
            } else if (flags.contains(name)) {
                mValues.put(name, "");
            } else if (!valued.contains(name)) {
                throw new IllegalArgumentException("unknown option " + argument);
            } else if (++i == arguments.size()) {
                throw new IllegalArgumentException(argument + " needs a value");
            } else {
                mValues.put(name, arguments.get(i));
            }
        }
    }

    /** The arguments that are not options. */
    public List<String> rest() {
        return mRest;
    }

    public boolean has(String name) {
        return mValues.containsKey(name);
    }

    public String get(String name, String otherwise) {
        return mValues.getOrDefault(name, otherwise);
    }

    public Path path(String name) {
        return has(name) ? Path.of(mValues.get(name)) : null;
    }

    /** A positive number. */
    public int number(String name, int otherwise) {
        String word = mValues.get(name);
        try {
            int number = word == null ? otherwise : Integer.parseInt(word);
            if (number > 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw new IllegalArgumentException("--" + name + " " + word + " is not a positive number");
    }

    /** The paths of a class path. */
    public static List<Path> paths(String words) {
        return Arrays.stream(words.split(File.pathSeparator)).filter(word -> !word.isEmpty()).map(Path::of).toList();
    }
}
