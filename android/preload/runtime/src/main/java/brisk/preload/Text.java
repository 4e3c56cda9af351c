// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.ByteArrayOutputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStream;

/** Reads files of UTF-8 with the API of Android 4. */
final class Text {
    static final String ENCODING = "UTF-8";

    private Text() {}

    /** All of a file. */
    static byte[] bytes(File file) throws IOException {
        InputStream in = new FileInputStream(file);
        try {
            return bytes(in);
        } finally {
            in.close();
        }
    }

    /** The rest of a stream, which stays open. */
    static byte[] bytes(InputStream in) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        byte[] buffer = new byte[8192];
        for (int count = in.read(buffer); count >= 0; count = in.read(buffer)) {
            bytes.write(buffer, 0, count);
        }
        return bytes.toByteArray();
    }
}
