// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

import brisk.preload.ParallelPreloader;
import brisk.preload.planner.Options;

/**
 * Replaces fork(2), which a Java machine does not survive: another zygote initialises the list and exits. The relevant effect
 * is the same: the parent has no class of it.
 */
final class ForkedChild implements ParallelPreloader.Fork {
    private final Options mOptions;
    private final List<String> mMachine;
    private Process mProcess;

    /** {@code machine} are options of the Java machine, in addition to those of every zygote. */
    ForkedChild(Options options, List<String> machine) {
        mOptions = options;
        mMachine = machine;
    }

    @Override
    public void start() throws IOException {
        List<String> arguments = new ArrayList<>(List.of("--mode", "off"));
        for (String name : List.of("list", "own")) {
            if (mOptions.has(name)) {
                arguments.addAll(List.of("--" + name, mOptions.get(name, "")));
            }
        }
        if (mOptions.has("child-state")) {
            arguments.addAll(List.of("--state", mOptions.get("child-state", "")));
        }
        mProcess = new ProcessBuilder(Child.command(mMachine, arguments)).inheritIO().redirectOutput(
                ProcessBuilder.Redirect.DISCARD).start();
    }

    @Override
    public void join() throws IOException {
        try {
            int code = mProcess.waitFor();
            if (code != 0) {
                throw new IOException("it ended with " + code);
            }
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
    }
}
