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
 * A file that stands while several threads preload. Where it still stands at the next start, that preload never came to
 * its end, and this one is sequential. A power cut looks the same, so the one after it tries again; a second failure in
 * a row of the same configuration ends that until the configuration changes.
 */
final class BootMarker {
    private static final String RUNNING = "running";
    private static final String SUSPECT = "suspect";
    private static final int FAILURES_ALLOWED = 2;

    private final File mFile;
    private final String mConfiguration;
    private int mFailures;

    /** {@code configuration} is one word that names what would run: another mode or plan is another chance. */
    BootMarker(File file, String configuration) {
        mFile = file;
        mConfiguration = configuration;
    }

    /** Reads the marker of the start before; says why this one must be sequential, or null when it need not. */
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
        return died ? "the last preload in parallel did not come to its end (" + mFile + ")" : null;
    }

    /** To be called before the first worker starts. */
    void begin() throws IOException {
        write(RUNNING);
    }

    /** To be called when every worker has ended. */
    void end() throws IOException {
        if (!mFile.delete() && mFile.exists()) {
            throw new IOException("cannot remove " + mFile);
        }
    }

    private void write(String state) throws IOException {
        FileOutputStream out = new FileOutputStream(mFile);
        try {
            out.write((mConfiguration + " " + state + " " + mFailures + "\n").getBytes(Text.ENCODING));
            // What is not on the disk when the device hangs did not happen.
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
