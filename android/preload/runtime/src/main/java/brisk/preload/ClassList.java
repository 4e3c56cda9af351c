// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.BufferedReader;
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

/** The names of the classes to preload, in order, as {@code preloaded-classes} of the platform lists them. */
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
     * Reads a list: a name a line; empty lines and those that begin with {@code #} say nothing; of a name that comes
     * again the first counts.
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
        BufferedReader lines = Text.lines(bytes);
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String name = line.trim();
            if (name.length() == 0 || name.startsWith("#")) {
                continue;
            }
            (seen.add(name) ? names : duplicates).add(name);
        }
        return new ClassList(names, duplicates, checksum.getValue());
    }

    /** The names in order, each once. */
    public List<String> names() {
        return mNames;
    }

    /** The names that came again, as often as they did. */
    public List<String> duplicates() {
        return mDuplicates;
    }

    /** The CRC-32 of the file's bytes, by which a plan knows its list. */
    public long checksum() {
        return mChecksum;
    }
}
