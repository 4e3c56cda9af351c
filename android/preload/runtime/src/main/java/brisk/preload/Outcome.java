// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

/** The outcome of one class of the list. */
public enum Outcome {
    /** No thread tried: the classes were left to a child process. */
    LEFT("left to the child"),
    /** The class is initialised. */
    INITIALISED("initialised"),
    /** No class has this name. */
    UNKNOWN("unknown"),
    /** The class, or one that it needs, cannot be linked, or has failed before. */
    UNLINKED("not linked"),
    /** The class's own initialiser threw. */
    THREW("initialiser threw");

    private final String mWords;

    Outcome(String words) {
        mWords = words;
    }

    @Override
    public String toString() {
        return mWords;
    }
}
