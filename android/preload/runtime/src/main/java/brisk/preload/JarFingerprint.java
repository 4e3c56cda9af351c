// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.EOFException;
import java.io.File;
import java.io.IOException;
import java.io.RandomAccessFile;
import java.util.zip.CRC32;

/**
 * Identifies a jar in a plan: its length and the CRC-32 of its directory, which itself holds the name, the sizes and the CRC-32
 * of every entry.
 *
 * <p>Not a digest of the whole file: that would take longer than the plan saves, and {@code MessageDigest} would initialise the
 * security providers before their turn. A plan is on the same verified partition as its jars, so it only has to detect an
 * update without a new plan, not an attacker.
 */
public final class JarFingerprint {
    private static final int END_BYTES = 22;
    private static final int LONGEST_COMMENT_BYTES = 0xffff;
    private static final int END_SIGNATURE = 0x06054b50;

    private final long mLengthBytes;
    private final long mDirectoryCrc;

    public JarFingerprint(long lengthBytes, long directoryCrc) {
        mLengthBytes = lengthBytes;
        mDirectoryCrc = directoryCrc;
    }

    /**
     * Computes the fingerprint of {@code jar}.
     *
     * @throws IOException if it cannot be read or is no jar
     */
    public static JarFingerprint of(File jar) throws IOException {
        RandomAccessFile file = new RandomAccessFile(jar, "r");
        try {
            return of(file);
        } catch (EOFException e) {
            throw new IOException(jar + " is not a jar: it is truncated");
        } catch (IOException e) {
            throw new IOException(jar + ": " + e.getMessage());
        } finally {
            file.close();
        }
    }

    private static JarFingerprint of(RandomAccessFile file) throws IOException {
        long lengthBytes = file.length();
        byte[] tail = new byte[(int) Math.min(lengthBytes, END_BYTES + LONGEST_COMMENT_BYTES)];
        file.seek(lengthBytes - tail.length);
        file.readFully(tail);
        int end = tail.length - END_BYTES;
        while (end >= 0 && littleEndian(tail, end) != END_SIGNATURE) {
            end--;
        }
        if (end < 0) {
            throw new IOException("not a jar: it has no directory");
        }
        long offset = littleEndian(tail, end + 16) & 0xffffffffL;
        if (offset > lengthBytes) {
            throw new IOException("its directory would be after its end");
        }
        // The directory and the bytes after it.
        CRC32 crc = new CRC32();
        byte[] buffer = new byte[1 << 16];
        file.seek(offset);
        for (int count = file.read(buffer); count >= 0; count = file.read(buffer)) {
            crc.update(buffer, 0, count);
        }
        return new JarFingerprint(lengthBytes, crc.getValue());
    }

    private static int littleEndian(byte[] bytes, int at) {
        return bytes[at] & 0xff | (bytes[at + 1] & 0xff) << 8 | (bytes[at + 2] & 0xff) << 16 | (bytes[at + 3] & 0xff) << 24;
    }

    public long lengthBytes() {
        return mLengthBytes;
    }

    public long directoryCrc() {
        return mDirectoryCrc;
    }

    @Override
    public boolean equals(Object other) {
        if (!(other instanceof JarFingerprint)) {
            return false;
        }
        JarFingerprint that = (JarFingerprint) other;
        return mLengthBytes == that.mLengthBytes && mDirectoryCrc == that.mDirectoryCrc;
    }

    @Override
    public int hashCode() {
        return (int) (mLengthBytes * 31 + mDirectoryCrc);
    }

    @Override
    public String toString() {
        return mLengthBytes + " " + Long.toHexString(mDirectoryCrc);
    }
}
