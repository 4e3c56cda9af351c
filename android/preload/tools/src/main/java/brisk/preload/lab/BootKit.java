// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.InputStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.spi.ToolProvider;
import java.util.zip.Deflater;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;
import java.util.zip.ZipOutputStream;

import brisk.preload.planner.Options;
import brisk.preload.planner.Schedule;

/**
 * Builds what a guest needs to boot a {@link BootZygote}, as a tree of the guest's files: a small Java machine and the
 * libraries that load it, the native part of a fork, the framework's classes and resources, a list and its plan, and the
 * durations that scheduling of the measured costs predicts.
 */
public final class BootKit {
    /** The Java modules that the framework's classes use. */
    private static final String MODULES = "java.base,java.logging,java.xml,java.sql,java.naming";
    /** The assumed throughput of two threads in units of one, the default of `brisk boot plan`. */
    private static final double SPEEDUP = 1.9;
    private static final int RUNS = 3;
    private static final int SHARE_STEP_PERCENT = 5;
    /**
     * Only interprets: Android 4.1.2 starts its compiler in the zygote's children, and later releases compile ahead of time. A
     * compiling thread would keep the second processor busy, so that no arm would be sequential, and a {@link ForkedChild} could
     * not load classes.
     */
    static final List<String> MACHINE = List.of("-Xint");
    /**
     * Its initialiser sets TLS up, which is native code on Android. HotSpot has it in Java, where interpretation takes longer
     * than for nine hundred other classes.
     */
    private static final Set<String> WITHOUT = Set.of("org.apache.http.conn.ssl.SSLSocketFactory");
    private static final String FORK_LIBRARY = "/zygote/lib/libfork.so";
    private static final Pattern LIBRARY = Pattern.compile("(?:=> )?(/\\S+) \\(0x");

    private final Path mOutput;
    private final Path mZygote;
    private final Rehearsal mRehearsal;

    private BootKit(Path output, Rehearsal rehearsal) throws IOException {
        mOutput = output;
        mZygote = Files.createDirectories(output.resolve("zygote"));
        mRehearsal = rehearsal;
    }

    /** {@code --frameworks FOLDER --scratch FOLDER --output FOLDER --classes N}; must be run from its jar. */
    public static void main(String[] arguments) throws IOException {
        Options options =
                new Options(List.of(arguments), Set.of("frameworks", "scratch", "output", "classes"), Set.of());
        Path own = classPath().get(0);
        Path output = options.path("output").toAbsolutePath();
        int classes = options.number("classes", Framework.LIST_LENGTH);
        Path resources = resources(Framework.JELLY_BEAN.jar(options.path("frameworks")), classes,
                output.resolve("zygote/resources.jar"));
        Rehearsal rehearsal = new Rehearsal(Framework.JELLY_BEAN, options.path("frameworks"), options.path("scratch"), classes,
                WITHOUT).withMachine(MACHINE).withResources(own, resources).plan(RUNS);
        BootKit kit = new BootKit(output, rehearsal);
        kit.machine();
        ForkLibrary.build(output.resolve(FORK_LIBRARY.substring(1)));
        kit.framework();
        kit.command();
        kit.prediction();
    }

    private static List<Path> classPath() throws IOException {
        List<Path> jars = new ArrayList<>();
        for (Path entry : Options.paths(System.getProperty("java.class.path"))) {
            if (!Files.isRegularFile(entry)) {
                throw new IOException(entry + " is not a jar: mvn -f android/preload package makes the jars");
            }
            jars.add(entry);
        }
        return jars;
    }

    /** A Java machine with the required modules, and its archive of classes. */
    private void machine() throws IOException {
        Path machine = mOutput.resolve("jvm");
        ToolProvider jlink = ToolProvider.findFirst("jlink").orElseThrow(
                () -> new IOException("this Java has no jlink: install a JDK (Debian: default-jdk-headless)"));
        int code = jlink.run(System.err, System.err, "--add-modules", MODULES, "--output", machine.toString(),
                "--strip-java-debug-attributes", "--no-header-files", "--no-man-pages");
        if (code != 0) {
            throw new IOException("jlink ended with " + code);
        }
        Path java = machine.resolve("bin/java");
        say(List.of(java.toString(), "-Xshare:dump"));
        for (String program : List.of("bin/java", "lib/server/libjvm.so", "lib/libjava.so", "lib/libzip.so", "lib/libnio.so")) {
            for (String line : say(List.of("ldd", machine.resolve(program).toString()))) {
                Matcher library = LIBRARY.matcher(line);
                if (library.find() && !library.group(1).startsWith(machine.toString())) {
                    copy(Path.of(library.group(1)), mOutput.resolve(library.group(1).substring(1)));
                }
            }
        }
    }

    private void framework() throws IOException {
        copy(mRehearsal.stubbed(), mZygote.resolve("framework.jar"));
        copy(mRehearsal.list(), mZygote.resolve("classes"));
        // A plan contains its jar's name, which is shorter here.
        String plan = Files.readString(mRehearsal.plan(mRehearsal.stubbed()));
        Files.writeString(mZygote.resolve("plan"), plan.replace(mRehearsal.stubbed().getFileName().toString(), "framework.jar"));
        for (Path jar : classPath()) {
            copy(jar, mOutput.resolve(inGuest(jar).substring(1)));
        }
    }

    /** The command of a zygote in the guest, a word per line; its options for one boot are appended. */
    private void command() throws IOException {
        String boot = "-Xbootclasspath/a:/zygote/framework.jar:" + inGuest(Child.preloader());
        List<String> words = new ArrayList<>(List.of("/jvm/bin/java"));
        words.addAll(Child.MACHINE);
        words.addAll(MACHINE);
        words.addAll(List.of(boot, "-cp", String.join(":", classPath().stream().map(BootKit::inGuest).toList()),
                BootZygote.class.getName(), "--list", "/zygote/classes", "--plan", "/zygote/plan", "--jars",
                "/zygote/framework.jar", "--resources", "/zygote/resources.jar", "--fork-library", FORK_LIBRARY));
        Files.write(mZygote.resolve("command"), words);
    }

    private static String inGuest(Path jar) {
        return "/zygote/lib/" + jar.getFileName();
    }

    /** The same share of a framework's resources as {@code classes} are of a zygote's classes. */
    private static Path resources(Path framework, int classes, Path jar) throws IOException {
        Files.createDirectories(jar.getParent());
        try (ZipFile from = new ZipFile(framework.toFile());
                ZipOutputStream to = new ZipOutputStream(Files.newOutputStream(jar))) {
            to.setLevel(Deflater.BEST_SPEED);
            long seen = 0;
            for (ZipEntry entry : (Iterable<ZipEntry>) from.stream().map(ZipEntry.class::cast)::iterator) {
                if (!FrameworkResources.uses(entry.getName())) {
                    continue;
                }
                // One for each group of as many classes as one resource stands for.
                boolean wanted = (seen + 1) * classes / Framework.LIST_LENGTH > seen * classes / Framework.LIST_LENGTH;
                seen++;
                if (wanted || classes >= Framework.LIST_LENGTH) {
                    to.putNextEntry(new ZipEntry(entry.getName()));
                    try (InputStream in = from.getInputStream(entry)) {
                        in.transferTo(to);
                    }
                }
            }
        }
        return jar;
    }

    /**
     * The predicted duration of a preload on some threads, relative to one thread: a line for each number of threads and each
     * share of resources, after a line with the assumed throughput of two threads. A guest measures its own shares, speed-up
     * and overhead of the preloader; the relative costs of the classes were measured here.
     */
    private void prediction() throws IOException {
        double classesUs = mRehearsal.result().withResources(0).sequentialUs();
        List<String> lines = new ArrayList<>(List.of("speedup " + SPEEDUP));
        for (int threads : new int[] {2, 4, 8}) {
            for (int percent = 0; percent < 100; percent += SHARE_STEP_PERCENT) {
                double us = classesUs * 100 / (100 - percent);
                double predictedUs = mRehearsal.result().withResources(us - classesUs)
                        .predictedUs(threads, new Schedule.Speedup(SPEEDUP));
                lines.add(String.format(Locale.ROOT, "%d %d %.4f", threads, percent, predictedUs / us));
            }
        }
        Files.write(mZygote.resolve("prediction"), lines);
    }

    private static List<String> say(List<String> command) throws IOException {
        Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
        List<String> lines = process.inputReader().lines().toList();
        try {
            if (process.waitFor() != 0) {
                throw new IOException(String.join(" ", command) + " failed:\n" + String.join("\n", lines));
            }
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        return lines;
    }

    private static void copy(Path from, Path to) throws IOException {
        Files.createDirectories(to.getParent());
        Files.copy(from, to, StandardCopyOption.REPLACE_EXISTING);
    }
}
