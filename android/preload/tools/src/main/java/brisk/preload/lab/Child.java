// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.net.URISyntaxException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import brisk.preload.ParallelPreloader;

/** A {@link Zygote} in its own Java machine, seen from the process that started it. */
final class Child {
    /**
     * One collector thread that never runs, neither for objects nor for classes, and one quick compiler: closest to code that was
     * compiled ahead of time.
     */
    static final List<String> MACHINE = List.of("-XX:+UseSerialGC", "-Xms512m", "-Xmx1g", "-Xmn384m", "-XX:MetaspaceSize=256m",
            "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-Xlog:disable", "-Xlog:all=error:stderr");

    /** The figures that a run reported. */
    record Run(String mode, long nanos, long delayNanos, boolean same) {}

    private final Process mProcess;
    private final List<String> mLines = new ArrayList<>();
    private final List<Run> mRuns = new ArrayList<>();

    private Child(Process process) {
        mProcess = process;
    }

    /** Starts one; {@code boot}, if not null, and the preloader are appended to its boot class path. */
    static Child start(Path boot, List<String> machine, List<String> arguments) throws IOException {
        List<String> all = new ArrayList<>(machine);
        if (boot != null) {
            all.add("-Xbootclasspath/a:" + boot + File.pathSeparator + preloader());
        }
        return new Child(new ProcessBuilder(command(all, arguments)).redirectErrorStream(true).start());
    }

    /** On a device the preloader is on the boot class path as well. */
    static Path preloader() throws IOException {
        try {
            return Path.of(ParallelPreloader.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        } catch (URISyntaxException e) {
            throw new IOException(e);
        }
    }

    /** The command of a zygote. */
    private static List<String> command(List<String> machine, List<String> arguments) {
        List<String> command = new ArrayList<>();
        command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
        command.addAll(MACHINE);
        command.addAll(machine);
        Collections.addAll(command, "-cp", System.getProperty("java.class.path"), Zygote.class.getName());
        command.addAll(arguments);
        return command;
    }

    /** Waits until a child with {@code --wait} is ready. */
    Child awaitReady() throws IOException {
        BufferedReader lines = mProcess.inputReader();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            if (line.equals("ready")) {
                return this;
            }
            mLines.add(line);
        }
        throw new IOException("the child ended before it was ready:\n" + String.join("\n", mLines));
    }

    Child go() throws IOException {
        mProcess.getOutputStream().write('\n');
        mProcess.getOutputStream().flush();
        return this;
    }

    /** Waits for its end; returns its exit code. */
    int join() throws IOException {
        BufferedReader lines = mProcess.inputReader();
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            mLines.add(line);
            String[] words = line.split(" ");
            if (words[0].equals("run") && words.length == 5) {
                mRuns.add(new Run(words[1], Long.parseLong(words[2]), Long.parseLong(words[3]), words[4].equals("true")));
            }
        }
        try {
            return mProcess.waitFor();
        } catch (InterruptedException e) {
            mProcess.destroyForcibly();
            throw new IOException(e);
        }
    }

    List<Run> runs() {
        return mRuns;
    }

    String text() {
        return String.join("\n", mLines);
    }
}
