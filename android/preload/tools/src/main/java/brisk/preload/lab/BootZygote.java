// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.File;
import java.io.IOException;
import java.net.StandardProtocolFamily;
import java.net.UnixDomainSocketAddress;
import java.nio.channels.ServerSocketChannel;
import java.nio.file.Path;
import java.util.List;
import java.util.Set;

import brisk.preload.ClassList;
import brisk.preload.Outcome;
import brisk.preload.ParallelPreloader;
import brisk.preload.PreloadMode;
import brisk.preload.PreloadReport;
import brisk.preload.planner.Options;

/**
 * Stands in for Android's zygote in a guest that boots. It does the four parts of one in their order, and its standard output
 * has a line a part, {@code part NAME NANOS}; the line of {@code preload} goes on with the mode that ran, how many of the
 * list's classes are initialised in this process, and the nanoseconds that resources took. What it starts says its own lines there.
 */
public final class BootZygote {
    private final Options mOptions;
    private ClassList mList;
    private long mResourcesNanos;
    private long mBeganNanos = System.nanoTime();

    private BootZygote(Options options) {
        mOptions = options;
    }

    /**
     * {@code --mode MODE --threads N --list FILE --plan FILE --jars JARS --resources JAR --socket PATH --system-server COMMAND
     * --application COMMAND [--machine OPTIONS]}; the last are for the Java machine of a fork's child.
     */
    public static void main(String[] arguments) throws IOException {
        Options options = new Options(List.of(arguments), Set.of("mode", "threads", "list", "plan", "jars", "resources",
                "socket", "system-server", "application", "machine"), Set.of());
        new BootZygote(options).boot();
    }

    private void boot() throws IOException {
        try (ServerSocketChannel socket = ServerSocketChannel.open(StandardProtocolFamily.UNIX)) {
            socket.bind(UnixDomainSocketAddress.of(mOptions.path("socket")));
            end("socket", "");
            PreloadReport report = preload();
            end("preload", " " + report.mode() + " " + initialised(report) + " " + mResourcesNanos);
            if (report.reason() != null || !report.faults().isEmpty()) {
                System.err.println(report);
            }
            start("system-server");
            end("system-server", "");
            while (true) {
                socket.accept().close();
                start("application");
                end("loop", "");
            }
        }
    }

    /** How many of the list; a plan may add others. */
    private int initialised(PreloadReport report) {
        Set<String> listed = Set.copyOf(mList.names());
        int count = 0;
        for (int index = 0; index < report.size(); index++) {
            count += report.outcome(index) == Outcome.INITIALISED && listed.contains(report.name(index)) ? 1 : 0;
        }
        return count;
    }

    private PreloadReport preload() throws IOException {
        FrameworkResources.use(mOptions.path("resources"));
        PreloadMode mode = PreloadMode.called(mOptions.get("mode", "off"));
        ParallelPreloader preloader = new ParallelPreloader(mode).setThreads(mOptions.number("threads", 2)).setResources(() -> {
            long beganNanos = System.nanoTime();
            FrameworkResources.preload();
            mResourcesNanos = System.nanoTime() - beganNanos;
        });
        if (mode == PreloadMode.FORK) {
            preloader.setFork(new ForkedChild(mOptions, words("machine")));
        }
        List<File> jars = Options.paths(mOptions.get("jars", "")).stream().map(Path::toFile).toList();
        mList = ClassList.read(mOptions.path("list").toFile());
        return preloader.preload(mList, mOptions.path("plan").toFile(), jars);
    }

    private void start(String what) throws IOException {
        new ProcessBuilder(words(what)).inheritIO().start();
    }

    private List<String> words(String option) {
        return List.of(mOptions.get(option, "").split(" "));
    }

    private void end(String part, String more) {
        long nowNanos = System.nanoTime();
        System.out.println("part " + part + " " + (nowNanos - mBeganNanos) + more);
        System.out.flush();
        mBeganNanos = nowNanos;
    }
}
