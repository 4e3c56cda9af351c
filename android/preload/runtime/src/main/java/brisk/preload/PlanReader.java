// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.IOException;
import java.io.UnsupportedEncodingException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads a plan line by line and refuses misplaced lines: first its origin, then its tasks. A zygote reads it once, in code that
 * is not compiled yet, so tasks are parsed byte by byte without temporary objects.
 */
final class PlanReader {
    private static final int[] NONE = {};

    private final byte[] mBytes;
    private final PreloadPlan.Origin mOrigin;
    private final List<String> mNames = new ArrayList<String>();
    private int mLine;
    /** Position of the next byte. */
    private int mAt;
    /** Start of the current word; it ends before {@link #mAt}. */
    private int mFrom;
    private boolean mLineBegins;

    /**
     * Reads the origin of a plan.
     *
     * @throws PlanException if it is damaged, with the line
     * @throws IOException if it cannot be read
     */
    PlanReader(File file) throws IOException {
        mBytes = Text.bytes(file);
        mOrigin = readOrigin();
    }

    /** The jars and the list that the plan was made from. */
    PreloadPlan.Origin origin() {
        return mOrigin;
    }

    private PreloadPlan.Origin readOrigin() throws IOException {
        if (!PreloadPlan.HEADER.equals(line())) {
            throw wrong("not a plan: it does not begin with \"" + PreloadPlan.HEADER + "\"");
        }
        Map<String, JarFingerprint> jars = new HashMap<String, JarFingerprint>();
        for (String line = line(); line != null; line = line()) {
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

    private long number(String word, int radix) throws PlanException {
        try {
            long number = Long.parseLong(word, radix);
            if (number >= 0) {
                return number;
            }
        } catch (NumberFormatException e) {
            // reported below
        }
        throw wrong("not a number: " + word);
    }

    /** Reads the tasks; a number refers to a class in {@code listed}. May be called once. */
    PreloadPlan tasks(List<String> listed) throws IOException {
        List<PreloadPlan.Task> tasks = new ArrayList<PreloadPlan.Task>();
        boolean resources = false;
        while (beginLine()) {
            int begin = mAt;
            if (!word()) {
                throw notUnderstood(begin);
            }
            if (is("end")) {
                end(tasks.size(), begin);
                return new PreloadPlan(tasks);
            }
            boolean isResources = is("resources") && !resources;
            if (!isResources && !is("task")) {
                throw notUnderstood(begin);
            }
            PreloadPlan.Task task = task(tasks.size(), listed, begin);
            if (task.isResources() != isResources) {
                throw notUnderstood(begin);
            }
            resources |= isResources;
            tasks.add(task);
        }
        throw wrong("the plan is cut short: its end is missing");
    }

    private void end(int tasks, int begin) throws IOException {
        if (!word()) {
            throw notUnderstood(begin);
        }
        if (number(mFrom, mAt) != tasks) {
            throw wrong(text(mFrom, mAt) + " tasks are announced, " + tasks + " were read");
        }
        if (word()) {
            throw notUnderstood(begin);
        }
        if (beginLine()) {
            throw wrong("something follows the end");
        }
    }

    private PreloadPlan.Task task(int tasks, List<String> listed, int begin) throws IOException {
        if (!word()) {
            throw notUnderstood(begin);
        }
        boolean exclusive = is("exclusive");
        if (!exclusive && !is("free")) {
            throw wrong("a task is exclusive or free, not " + text(mFrom, mAt));
        }
        if (!word()) {
            throw notUnderstood(begin);
        }
        int[] dependencies = is("-") ? NONE : dependencies(tasks);
        mNames.clear();
        while (word()) {
            mNames.add(name(listed));
        }
        return new PreloadPlan.Task(mNames.toArray(new String[mNames.size()]), dependencies, exclusive);
    }

    /** The current word as a class: its number in the list, or the name of one that is not listed. */
    private String name(List<String> listed) throws IOException {
        if (mFrom == mAt) {
            throw wrong("a class without a name");
        }
        if (mBytes[mFrom] < '0' || mBytes[mFrom] > '9') {
            return text(mFrom, mAt);
        }
        int number = number(mFrom, mAt);
        if (number >= listed.size()) {
            throw wrong("the list has no class " + number);
        }
        return listed.get(number);
    }

    /** The current word as comma-separated numbers. */
    private int[] dependencies(int tasks) throws IOException {
        int count = 1;
        for (int at = mFrom; at < mAt; at++) {
            count += mBytes[at] == ',' ? 1 : 0;
        }
        int[] numbers = new int[count];
        int from = mFrom;
        for (int i = 0; i < count; i++) {
            int to = from;
            while (to < mAt && mBytes[to] != ',') {
                to++;
            }
            numbers[i] = number(from, to);
            if (numbers[i] >= tasks) {
                throw wrong("task " + numbers[i] + " does not come before this line");
            }
            if (i > 0 && numbers[i] <= numbers[i - 1]) {
                throw wrong("dependencies are not in order");
            }
            from = to + 1;
        }
        return numbers;
    }

    private int number(int from, int to) throws IOException {
        int number = 0;
        boolean isOne = from < to;
        for (int at = from; at < to && isOne; at++) {
            int digit = mBytes[at] - '0';
            isOne = digit >= 0 && digit <= 9 && number < Integer.MAX_VALUE / 10;
            number = number * 10 + digit;
        }
        if (!isOne) {
            throw wrong("not a number: " + text(from, to));
        }
        return number;
    }

    /** Moves to the next line; false at the end. The previous line must be read to its end. */
    private boolean beginLine() {
        mLine++;
        mLineBegins = true;
        // Words end before the end of their line.
        if (mAt > 0 && mAt < mBytes.length && mBytes[mAt - 1] != '\n') {
            mAt++;
        }
        return mAt < mBytes.length;
    }

    /** Moves to the line's next word; false at its end. */
    private boolean word() {
        if (mAt == mBytes.length || mBytes[mAt] == '\n') {
            return false;
        }
        if (!mLineBegins) {
            mAt++; // the space
        }
        mLineBegins = false;
        mFrom = mAt;
        byte[] bytes = mBytes;
        int at = mAt;
        while (at < bytes.length && bytes[at] != ' ' && bytes[at] != '\n') {
            at++;
        }
        mAt = at;
        return true;
    }

    private boolean is(String word) {
        if (mAt - mFrom != word.length()) {
            return false;
        }
        for (int i = 0; i < word.length(); i++) {
            if (mBytes[mFrom + i] != word.charAt(i)) {
                return false;
            }
        }
        return true;
    }

    /** The next line without its end; null at the end. */
    private String line() throws UnsupportedEncodingException {
        mLine++;
        if (mAt == mBytes.length) {
            return null;
        }
        int end = endOfLine(mAt);
        String line = text(mAt, end);
        mAt = Math.min(end + 1, mBytes.length);
        return line;
    }

    private int endOfLine(int from) {
        int end = from;
        while (end < mBytes.length && mBytes[end] != '\n') {
            end++;
        }
        return end;
    }

    private String text(int from, int to) throws UnsupportedEncodingException {
        return new String(mBytes, from, to - from, Text.ENCODING);
    }

    private PlanException notUnderstood(int begin) throws UnsupportedEncodingException {
        return wrong("not understood: " + text(begin, endOfLine(begin)));
    }

    private PlanException wrong(String what) {
        return new PlanException(mLine, what);
    }
}
