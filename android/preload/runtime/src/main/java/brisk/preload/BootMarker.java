// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;

/**
 * A file that exists while several threads preload. If it still exists at the next start, that preload did not end, and this
 * one is sequential. A power cut has the same effect, so the start after it tries again; after a second failure in a row, the
 * configuration stays sequential until it changes.
 */
final class BootMarker {
    private static final String RUNNING = "running";
    private static final String SUSPECT = "suspect";
    private static final int FAILURES_ALLOWED = 2;

    private final File mFile;
    private final String mConfiguration;
    private int mFailures;

    /** {@code configuration} is one word that identifies what would run: another mode or plan gets another try. */
    BootMarker(File file, String configuration) {
        mFile = file;
        mConfiguration = configuration;
    }

    /** Reads the marker of the previous start; returns why this one must be sequential, or null. */
    String objection() throws IOException {
        if (!mFile.exists()) {
            return null;
        }
        String[] words = line().split(" ");
        if (words.length != 3 || !words[0].equals(mConfiguration)) {
            return null;
        }
        mFailures = number(words[2]);
        boolean died = words[1].equals(RUNNING);
        if (died) {
            mFailures++;
            write(SUSPECT);
        }
        if (mFailures >= FAILURES_ALLOWED) {
            return "preloading in parallel has failed " + mFailures + " times in a row; it stays off until the plan, the"
                    + " mode or the jars change, or " + mFile + " is removed";
        }
        return died ? "the last parallel preload did not end (" + mFile + ")" : null;
    }

    /** Must be called before the first worker starts. */
    void begin() throws IOException {
        write(RUNNING);
    }

    /** Must be called after every worker has ended. */
    void end() throws IOException {
        if (!mFile.delete() && mFile.exists()) {
            throw new IOException("cannot remove " + mFile);
        }
    }

    private void write(String state) throws IOException {
        FileOutputStream out = new FileOutputStream(mFile);
        try {
            out.write((mConfiguration + " " + state + " " + mFailures + "\n").getBytes(Text.ENCODING));
            // A write that is not on the disk when the device hangs would be lost.
            out.getFD().sync();
        } finally {
            out.close();
        }
    }

    private String line() throws IOException {
        InputStream in = new FileInputStream(mFile);
        try {
            String line = new BufferedReader(new InputStreamReader(in, Text.ENCODING)).readLine();
            return line == null ? "" : line;
        } finally {
            in.close();
        }
    }

    private static int number(String word) {
        try {
            return Math.max(0, Integer.parseInt(word));
        } catch (NumberFormatException e) {
            return 0;
        }
    }
}
