// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.zip.CRC32;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

import brisk.preload.Fixture;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What HotSpot allows in a child of fork(2), and what the zygote does where it does not. */
class ForkTest {
    private static final int HANG_MS = 1500;
    private static final String HUNG = "it did not end within " + HANG_MS + " ms";

    private static Path sLibrary;

    @TempDir
    Path mFolder;

    @BeforeAll
    static void compile() throws IOException {
        sLibrary = ForkLibrary.build(Path.of(System.getProperty("brisk.scratch"), "libfork.so"));
    }

    /** Forks one child for each work, and prints how it ended. */
    static final class Trial {
        private Trial() {}

        /** {@code LIBRARY LIMIT_MS JAR WORK...} */
        public static void main(String[] arguments) throws IOException {
            Path library = Path.of(arguments[0]);
            int limitMs = Integer.parseInt(arguments[1]);
            try (ZipFile jar = new ZipFile(arguments[2])) {
                for (String work : List.of(arguments).subList(3, arguments.length)) {
                    ForkedChild child = new ForkedChild(library, limitMs, false, () -> work(work, jar));
                    child.start();
                    if (work.equals("reads the parent's jar")) {
                        read(jar);
                    }
                    System.out.println(work + ": " + end(child));
                }
            }
            Runtime.getRuntime().halt(0);
        }

        private static String end(ForkedChild child) {
            try {
                child.awaitEnd();
                return "ended";
            } catch (IOException e) {
                return e.getMessage();
            }
        }

        private static void work(String work, ZipFile jar) throws IOException {
            try {
                switch (work) {
                    case "loads a class" -> Class.forName("java.util.concurrent.Phaser");
                    case "starts a thread" -> {
                        Thread thread = new Thread(() -> { });
                        thread.start();
                        thread.join();
                    }
                    case "reads the parent's jar" -> read(jar);
                    case "throws" -> throw new IOException("as it should");
                    case "is killed" -> {
                        // ProcessHandle may have the parent's PID from before the fork.
                        String pid = Files.readSymbolicLink(Path.of("/proc/self")).toString();
                        new ProcessBuilder("sh", "-c", "kill -KILL " + pid).start().waitFor();
                    }
                    case "collects" -> System.gc();
                    case "exits" -> System.exit(0);
                    case "halts" -> Runtime.getRuntime().halt(0);
                    case "dumps threads" -> Thread.getAllStackTraces();
                    default -> throw new IOException("unknown");
                }
            } catch (ClassNotFoundException | InterruptedException e) {
                throw new IOException(e);
            }
        }

        /** Fails if another process has moved the position between seek and read. */
        private static void read(ZipFile jar) throws IOException {
            for (int round = 0; round < 50; round++) {
                for (ZipEntry entry : jar.stream().toList()) {
                    CRC32 checksum = new CRC32();
                    checksum.update(jar.getInputStream(entry).readAllBytes());
                    if (checksum.getValue() != entry.getCrc()) {
                        throw new IOException(entry + " was read as something else");
                    }
                }
            }
        }
    }

    private List<String> trial(int limitMs, String... works) throws IOException {
        Fixture fixture = new Fixture();
        for (int i = 0; i < 200; i++) {
            fixture.add("C" + i);
        }
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(Child.MACHINE);
        command.addAll(BootKit.MACHINE);
        command.addAll(List.of("-cp", System.getProperty("java.class.path"), Trial.class.getName(), sLibrary.toString(),
                "" + limitMs, fixture.jar(mFolder.resolve("made.jar")).toString()));
        command.addAll(List.of(works));
        File errors = mFolder.resolve("errors").toFile();
        Process process = new ProcessBuilder(command).redirectError(errors).start();
        List<String> lines = process.inputReader().lines().toList();
        assertEquals(works.length, lines.size(), () -> lines + "\n" + text(errors.toPath()));
        return lines;
    }

    private static String text(Path file) {
        try {
            return Files.readString(file);
        } catch (IOException e) {
            return e.toString();
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_child_works_on_the_one_thread_that_it_has() throws IOException {
        assertEquals(List.of("loads a class: ended", "starts a thread: ended", "reads the parent's jar: ended",
                "throws: it ended with 1", "is killed: signal 9 ended it"),
                trial(ForkedChild.LIMIT_MS, "loads a class", "starts a thread", "reads the parent's jar", "throws", "is killed"));
    }

    /** Each needs HotSpot's thread of operations, which the child lacks: the reason for its flags, its exit and its limit. */
    // Verifies PRELOAD-2.
    @Test
    void an_operation_of_the_machine_never_ends_in_a_child() throws IOException {
        assertEquals(List.of("collects: " + HUNG, "exits: " + HUNG, "halts: " + HUNG, "dumps threads: " + HUNG),
                trial(HANG_MS, "collects", "exits", "halts", "dumps threads"));
    }

    private Child zygote(List<String> machine, Fixture fixture) throws IOException {
        Path jar = fixture.jar(mFolder.resolve("made.jar"));
        Path list = Fixture.list(mFolder.resolve("list"), fixture.names());
        return Child.start(null, machine, List.of("--mode", "fork", "--list", list.toString(), "--own", jar.toString(),
                "--fork-library", sLibrary.toString(), "--fork-limit-ms", "" + HANG_MS, "--state", mFolder.resolve("state").toString()));
    }

    // Verifies PRELOAD-2.
    @Test
    void the_classes_of_a_hung_child_are_initialised_by_the_zygote() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Good");
        fixture.add("Collecting").collecting();
        Child zygote = zygote(BootKit.MACHINE, fixture);
        assertEquals(0, zygote.join(), zygote.text());
        assertEquals("off", zygote.runs().get(0).mode(), zygote.text());
        assertTrue(zygote.text().contains("the child: " + HUNG), zygote.text());
        assertEquals(List.of("began made.Collecting", "began made.Good", "initialised made.Collecting", "initialised made.Good"),
                Files.readAllLines(mFolder.resolve("state")));
    }

    /** Loading a class may invalidate compiled code, which is one of those operations. */
    // Verifies PRELOAD-2.
    @Test
    void a_zygote_that_compiles_does_not_fork() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Good");
        Child zygote = zygote(List.of(), fixture);
        assertEquals(0, zygote.join(), zygote.text());
        assertEquals("off", zygote.runs().get(0).mode(), zygote.text());
        assertTrue(zygote.text().contains("-Xint"), zygote.text());
    }
}
