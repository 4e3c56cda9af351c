// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.NoSuchFileException;

/** Why a file cannot be used: the message of a {@link FileSystemException} is mostly only its path. */
final class Reason {
    private Reason() {}

    static String of(IOException e) {
        if (e instanceof NoSuchFileException) {
            return "there is no such file";
        }
        if (e instanceof AccessDeniedException) {
            return "permission denied";
        }
        if (e instanceof FileSystemException) {
            String reason = ((FileSystemException) e).getReason();
            return reason == null ? e.getClass().getSimpleName() : reason;
        }
        return e.getMessage();
    }
}
