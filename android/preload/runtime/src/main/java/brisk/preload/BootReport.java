// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** What a zygote says of its preload to a program that compares boots, as a system property has room for. */
public final class BootReport {
    /** A value and the zero that ends it are 92 bytes. */
    private static final int LIMIT_BYTES = 91;

    private BootReport() {}

    /** The mode that ran, how many milliseconds classes and resources took and, where {@code reason} is not null, why no other did. */
    public static String value(PreloadMode ran, long nanos, String reason) {
        StringBuilder text = new StringBuilder().append(ran).append(' ').append(nanos / 1000000);
        if (reason != null) {
            text.append(' ').append(reason);
        }
        // A letter of ASCII is a byte.
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
