// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.BufferedReader;
import java.io.Closeable;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/** Reads a plan line by line and refuses what is not in its place: first what it was made from, then its tasks. */
final class PlanReader implements Closeable {
    private static final int[] NONE = {};

    private final InputStream mIn;
    private final BufferedReader mLines;
    private final PreloadPlan.Origin mOrigin;
    private int mLine;

    /**
     * Opens a plan and reads what it was made from.
     *
     * @throws PlanException when it is damaged, with the line
     * @throws IOException when it cannot be read
     */
    PlanReader(File file) throws IOException {
        mIn = new FileInputStream(file);
        try {
            mLines = new BufferedReader(new InputStreamReader(mIn, Text.ENCODING));
            mOrigin = readOrigin();
        } catch (IOException e) {
            mIn.close();
            throw e;
        }
    }

    /** What the plan was made from. */
    PreloadPlan.Origin origin() {
        return mOrigin;
    }

    private PreloadPlan.Origin readOrigin() throws IOException {
        if (!PreloadPlan.HEADER.equals(next())) {
            throw wrong("this is no plan: it does not begin with \"" + PreloadPlan.HEADER + "\"");
        }
        Map<String, JarFingerprint> jars = new HashMap<String, JarFingerprint>();
        for (String line = next(); line != null; line = next()) {
            String[] words = line.split(" ");
            if (words[0].equals("jar") && words.length >= 4) {
                String name = line.substring(words[0].length() + words[1].length() + words[2].length() + 3);
                jars.put(name, new JarFingerprint(number(words[1], 10), number(words[2], 16)));
            } else if (words[0].equals("list") && words.length == 2 && !jars.isEmpty()) {
                return new PreloadPlan.Origin(jars, number(words[1], 16));
            } else {
                break;
            }
        }
        throw wrong("the plan does not say what jars and list it was made from");
    }

    /** Reads the tasks; to be called once. */
    PreloadPlan tasks() throws IOException {
        List<PreloadPlan.Task> tasks = new ArrayList<PreloadPlan.Task>();
        boolean resources = false;
        for (String line = next(); line != null; line = next()) {
            String[] words = line.split(" ");
            if (words[0].equals("task") && words.length >= 4) {
                tasks.add(task(words, tasks.size()));
            } else if (words[0].equals("resources") && words.length == 3 && !resources) {
                tasks.add(task(words, tasks.size()));
                resources = true;
            } else if (words[0].equals("end") && words.length == 2) {
                if (number(words[1], 10) != tasks.size()) {
                    throw wrong(words[1] + " tasks are announced, " + tasks.size() + " are here");
                }
                if (next() != null) {
                    throw wrong("something follows the end");
                }
                return new PreloadPlan(tasks);
            } else {
                throw wrong("not understood: " + line);
            }
        }
        throw wrong("the plan is cut short: its end is missing");
    }

    private PreloadPlan.Task task(String[] words, int tasks) throws PlanException {
        boolean exclusive = words[1].equals("exclusive");
        if (!exclusive && !words[1].equals("free")) {
            throw wrong("a task is exclusive or free, not " + words[1]);
        }
        String[] classes = Arrays.copyOfRange(words, 3, words.length);
        for (String name : classes) {
            if (name.length() == 0) {
                throw wrong("a class without a name");
            }
        }
        return new PreloadPlan.Task(classes, numbers(words[2], tasks), exclusive);
    }

    private int[] numbers(String words, int tasks) throws PlanException {
        if (words.equals("-")) {
            return NONE;
        }
        String[] parts = words.split(",");
        int[] numbers = new int[parts.length];
        for (int i = 0; i < parts.length; i++) {
            long number = number(parts[i], 10);
            if (number >= tasks) {
                throw wrong("task " + number + " does not come before this line");
            }
            if (i > 0 && number <= numbers[i - 1]) {
                throw wrong("dependencies are not in order");
            }
            numbers[i] = (int) number;
        }
        return numbers;
    }

    private long number(String word, int radix) throws PlanException {
        try {
            long number = Long.parseLong(word, radix);
            if (number >= 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // told below
        }
        throw wrong("not a number: " + word);
    }

    private String next() throws IOException {
        mLine++;
        return mLines.readLine();
    }

    private PlanException wrong(String what) {
        return new PlanException(mLine, what);
    }

    @Override
    public void close() throws IOException {
        mIn.close();
    }
}
