// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.BufferedReader;
import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.io.InputStreamReader;

/** Lines of UTF-8, by what Android 4 has. */
final class Text {
    static final String ENCODING = "UTF-8";

    private Text() {}

    static BufferedReader lines(byte[] bytes) throws IOException {
        return new BufferedReader(new InputStreamReader(new ByteArrayInputStream(bytes), ENCODING));
    }
}
