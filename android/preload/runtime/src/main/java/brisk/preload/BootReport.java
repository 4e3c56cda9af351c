// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** A zygote's report of its preload to a program that compares boots, short enough for a system property. */
public final class BootReport {
    /** A value and its terminating zero are 92 bytes. */
    private static final int LIMIT_BYTES = 91;

    private BootReport() {}

    /** The mode that ran, its milliseconds for classes and resources and, if {@code reason} is not null, why no other ran. */
    public static String value(PreloadMode ran, long nanos, String reason) {
        StringBuilder text = new StringBuilder().append(ran).append(' ').append(nanos / 1000000);
        if (reason != null) {
            text.append(' ').append(reason);
        }
        // An ASCII character is a byte.
        for (int index = 0; index < text.length(); index++) {
            char letter = text.charAt(index);
            if (letter < ' ' || letter > '~') {
                text.setCharAt(index, '?');
            }
        }
        text.setLength(Math.min(text.length(), LIMIT_BYTES));
        return text.toString();
    }
}
