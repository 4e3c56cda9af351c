// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.zip.CRC32;

/** The names of the classes to preload, in order, as in the platform's {@code preloaded-classes}. */
public final class ClassList {
    private final List<String> mNames;
    private final List<String> mDuplicates;
    private final long mChecksum;

    private ClassList(List<String> names, List<String> duplicates, long checksum) {
        mNames = Collections.unmodifiableList(names);
        mDuplicates = Collections.unmodifiableList(duplicates);
        mChecksum = checksum;
    }

    /**
     * Reads a list with a name per line. Empty lines and lines that begin with {@code #} are ignored; of a duplicate name the
     * first one is used.
     *
     * @throws IOException when the file cannot be read
     */
    public static ClassList read(File file) throws IOException {
        InputStream in = new FileInputStream(file);
        try {
            return read(in);
        } finally {
            in.close();
        }
    }

    /** Reads a list from a stream, which stays open. */
    public static ClassList read(InputStream in) throws IOException {
        byte[] bytes = Text.bytes(in);
        CRC32 checksum = new CRC32();
        checksum.update(bytes);
        List<String> names = new ArrayList<String>();
        List<String> duplicates = new ArrayList<String>();
        Set<String> seen = new HashSet<String>();
        // Byte by byte: this code is not compiled yet, and a line reader takes half as long again.
        for (int from = 0, end; from < bytes.length; from = end + 1) {
            end = from;
            while (end < bytes.length && bytes[end] != '\n') {
                end++;
            }
            String name = name(bytes, from, end);
            if (name != null) {
                (seen.add(name) ? names : duplicates).add(name);
            }
        }
        return new ClassList(names, duplicates, checksum.getValue());
    }

    /** The name on the line from {@code from} to {@code end}, or null if the line is ignored. */
    private static String name(byte[] bytes, int from, int end) throws IOException {
        int begin = from;
        while (begin < end && isSpace(bytes[begin])) {
            begin++;
        }
        if (begin == end || bytes[begin] == '#') {
            return null;
        }
        int last = end;
        while (isSpace(bytes[last - 1])) {
            last--;
        }
        return new String(bytes, begin, last - begin, Text.ENCODING);
    }

    private static boolean isSpace(byte letter) {
        return letter >= 0 && letter <= ' ';
    }

    /** The names in order, without duplicates. */
    public List<String> names() {
        return mNames;
    }

    /** The duplicate names, once for each repetition. */
    public List<String> duplicates() {
        return mDuplicates;
    }

    /** The CRC-32 of the file's bytes, which identifies the list in a plan. */
    public long checksum() {
        return mChecksum;
    }
}
