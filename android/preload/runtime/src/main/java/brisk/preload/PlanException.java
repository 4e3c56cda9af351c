// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import java.io.IOException;

/** A plan that cannot be used, with the line of the error. */
public final class PlanException extends IOException {
    private static final long serialVersionUID = 1L;

    public PlanException(int line, String what) {
        super("line " + line + ": " + what);
    }
}
