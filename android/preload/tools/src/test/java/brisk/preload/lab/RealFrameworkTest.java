// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.zip.ZipFile;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

import brisk.preload.ClassList;

/** The classes of Android 4.1.2, each test in its own Java machine. */
class RealFrameworkTest {
    private static final Path FRAMEWORKS = Path.of(System.getProperty("brisk.frameworks"));
    private static final Path SCRATCH = Path.of(System.getProperty("brisk.scratch"));
    private static final Pattern INITIALIZING = Pattern.compile("Initializing '([^']+)'");

    /** Output of the processes that a booting zygote starts. */
    private static final List<String> STARTED = List.of("the server", "the application");

    private static Rehearsal sRehearsal;
    private static Path sForkLibrary;

    @BeforeAll
    static void rehearse() throws IOException {
        sForkLibrary = ForkLibrary.build(SCRATCH.resolve("libfork.so"));
        sRehearsal = new Rehearsal(Framework.JELLY_BEAN, FRAMEWORKS, SCRATCH).plan(1);
    }

    // Verifies PRELOAD-2.
    @Test
    void almost_every_class_of_a_derived_list_initialises() throws IOException {
        List<String> state = Files.readAllLines(sRehearsal.sequentialState());
        long initialised = state.stream().filter(line -> line.startsWith("initialised ")).count();
        assertEquals(2300, Files.readAllLines(sRehearsal.list()).size());
        assertTrue(initialised >= 0.95 * 2300, initialised + " of 2300 initialise");
    }

    /** By the Java machine's own report, on classes that only the stubs have changed. */
    // Verifies PRELOAD-1.
    @Test
    void every_mode_initialises_exactly_what_the_sequential_one_does() throws IOException {
        Set<String> sequential = initialised("off", 1);
        assertTrue(sequential.size() >= 2300, sequential.size() + " classes");
        assertEquals(sequential, initialised("ahead", 2));
        assertEquals(sequential, initialised("plan", 2));
        assertEquals(sequential, initialised("plan", 4));
    }

    private static Set<String> initialised(String mode, int threads) throws IOException {
        Path log = sRehearsal.file("log");
        Child child = Child.start(sRehearsal.stubbed(), List.of("-Xlog:class+init=info:file=" + log),
                sRehearsal.arguments(mode, threads));
        assertEquals(0, child.join(), child.text());
        assertEquals(mode, child.runs().get(0).mode(), child.text());
        Predicate<String> hosts = Framework.hosts();
        Set<String> names = new TreeSet<>();
        try (ZipFile jar = new ZipFile(sRehearsal.stubbed().toFile())) {
            for (String line : Files.readAllLines(log)) {
                Matcher matcher = INITIALIZING.matcher(line);
                if (matcher.find() && !hosts.test(matcher.group(1)) && jar.getEntry(matcher.group(1) + ".class") != null) {
                    names.add(matcher.group(1));
                }
            }
        }
        return names;
    }

    // Verifies PRELOAD-1.
    @Test
    void delayed_initialisers_cause_no_deadlock_and_the_same_classes() throws IOException {
        adversarial(2, 1, 10);
        adversarial(4, 2, 10);
    }

    static void adversarial(int threads, int seed, int runs) throws IOException {
        adversarial(sRehearsal, threads, seed, runs);
    }

    static void adversarial(Rehearsal rehearsal, int threads, int seed, int runs) throws IOException {
        List<String> arguments = new ArrayList<>(rehearsal.hookedArguments("plan", threads));
        arguments.addAll(List.of("--runs", "" + runs, "--seed", "" + seed, "--expect", rehearsal.sequentialState().toString()));
        Child child = Child.start(null, List.of(), arguments);
        assertEquals(0, child.join(), child.text());
        assertEquals(runs, child.runs().size());
        assertTrue(child.runs().stream().allMatch(run -> run.mode().equals("plan") && run.same()), child.text());
    }

    // Verifies PRELOAD-1.
    @Test
    void resources_are_preloaded_beside_the_classes() throws IOException {
        FrameworkResources.use(sRehearsal.original());
        FrameworkResources.preload();
        FrameworkResources.Preloaded preloaded = FrameworkResources.preloaded();
        assertTrue(preloaded.drawables() > 500 && preloaded.pixelBytes() > 1_000_000, preloaded.toString());
        assertTrue(preloaded.documents() > 100 && preloaded.chunks() > 1000, preloaded.toString());
        for (String mode : List.of("off", "ahead", "plan")) {
            List<String> arguments = new ArrayList<>(sRehearsal.arguments(mode, 2));
            arguments.addAll(List.of("--resources", sRehearsal.original().toString()));
            Child child = Child.start(sRehearsal.stubbed(), List.of(), arguments);
            assertEquals(0, child.join(), child.text());
            assertTrue(child.text().contains("resources " + preloaded), child.text());
        }
    }

    /** The limit of the paper's method: the child exits, and its initialised classes with it. */
    // Verifies PRELOAD-2.
    @Test
    void a_parent_lacks_the_classes_that_its_fork_has_initialised() throws IOException {
        Path state = sRehearsal.file("fork-state");
        List<String> arguments = new ArrayList<>(sRehearsal.hookedArguments("fork", 2));
        arguments.addAll(List.of("--state", state.toString(), "--child-state", sRehearsal.file("child-state").toString(),
                "--fork-library", sForkLibrary.toString()));
        Child child = Child.start(null, BootKit.MACHINE, arguments);
        assertEquals(0, child.join(), child.text());
        assertEquals("fork", child.runs().get(0).mode(), child.text());
        List<String> inChild = Files.readAllLines(sRehearsal.file("child-state"));
        assertEquals(Files.readAllLines(sRehearsal.sequentialState()), inChild);
        List<String> inParent = Files.readAllLines(state);
        assertEquals(2300, inParent.stream().filter(line -> line.startsWith("absent ")).count());
        assertTrue(inParent.stream().noneMatch(line -> line.startsWith("began ")), "no initialiser ran in the parent");
    }

    /** The zygote of the laboratory's boots, on this machine. */
    // Verifies PRELOAD-2.
    @Test
    void a_booting_zygote_does_four_parts_and_a_fork_none_of_them() throws IOException {
        int listed = ClassList.read(sRehearsal.list().toFile()).names().size();
        for (String mode : List.of("off", "plan", "fork")) {
            List<String> said = boot(mode);
            assertEquals(List.of("socket", "preload", "system-server", "loop"), said.stream()
                    .filter(line -> line.startsWith("part ")).map(line -> line.split(" ")[1]).toList(), said.toString());
            String[] preload = one(said, "part preload ");
            assertEquals(mode, preload[3], said.toString());
            int initialised = Integer.parseInt(preload[4]);
            assertTrue(mode.equals("fork") ? initialised == 0 : initialised >= 0.95 * listed, mode + " " + initialised);
            assertTrue(Long.parseLong(preload[5]) > 0, "resources took a time");
            assertTrue(Long.parseLong(preload[6]) > 0, "threads ran");
            assertTrue(said.containsAll(STARTED), said.toString());
            if (mode.equals("fork")) {
                assertTrue(Integer.parseInt(one(said, "child initialised ")[2]) >= 0.95 * listed, said.toString());
                assertEquals("child ended", said.get(said.size() - 1), said.toString());
                continue;
            }
            for (String measured : List.of("own", "two")) {
                String[] words = one(said, "measured " + measured + " ");
                assertTrue(Long.parseLong(words[2]) > 0 && Long.parseLong(words[3]) > 0, said.toString());
            }
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_zygote_that_waits_goes_on_after_its_child() throws IOException {
        List<String> said = boot("fork", "--wait");
        String child = String.join(" ", one(said, "child initialised "));
        String preload = String.join(" ", one(said, "part preload "));
        assertTrue(said.indexOf(child) < said.indexOf("the server") && said.indexOf(child) < said.indexOf(preload), said.toString());
        assertEquals("child ended", said.get(said.size() - 1), said.toString());
    }

    private static String[] one(List<String> said, String beginning) {
        List<String> found = said.stream().filter(line -> line.startsWith(beginning)).toList();
        assertEquals(1, found.size(), said.toString());
        return found.get(0).split(" ");
    }

    /** Its output until its loop has served one request, and its measurements or its child's end then. */
    private static List<String> boot(String mode, String... more) throws IOException {
        boolean forks = mode.equals("fork");
        String boot = "-Xbootclasspath/a:" + sRehearsal.stubbed() + File.pathSeparator + Child.preloader();
        List<String> command = new ArrayList<>(List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString()));
        command.addAll(Child.MACHINE);
        command.addAll(forks ? BootKit.MACHINE : List.of());
        command.addAll(List.of(boot, "-cp", System.getProperty("java.class.path"), BootZygote.class.getName()));
        command.addAll(sRehearsal.arguments(mode, 2));
        command.addAll(List.of("--resources", sRehearsal.original().toString(), "--fork-library", sForkLibrary.toString(),
                "--system-server", "echo the server", "--application", "echo the application"));
        command.addAll(List.of(more));
        Predicate<String> last = line -> forks ? line.matches("child (ended|failed.*)") : line.startsWith("measured two ");
        Process zygote = new ProcessBuilder(command).redirectErrorStream(true).start();
        List<String> said = new ArrayList<>();
        try (BufferedReader lines = zygote.inputReader()) {
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                said.add(line);
                if (line.startsWith("part system-server ")) {
                    zygote.getOutputStream().write('\n');
                    zygote.getOutputStream().flush();
                }
                // When the application has printed its line as well, the next one is the last.
                if (line.startsWith("part loop ") || STARTED.contains(line)) {
                    if (said.containsAll(STARTED) && said.stream().anyMatch(known -> known.startsWith("part loop "))) {
                        zygote.getOutputStream().write(forks ? 'c' : 'm');
                        zygote.getOutputStream().flush();
                    }
                }
                if (last.test(line)) {
                    break;
                }
            }
        } finally {
            zygote.destroyForcibly();
        }
        return said;
    }

    @Test
    void the_naive_halves_deadlock_where_initialisers_meet() throws IOException {
        // Two classes of a cycle, one in each half of the list, each begun before the other is needed.
        Path list = Files.write(sRehearsal.file("cycle"), List.of("brisk.preload.lab.Cycle$First", "brisk.preload.lab.Cycle$Second"));
        Child halves = Child.start(null, List.of(), List.of("--mode", "halves", "--list", list.toString(), "--stall-ms", "500",
                "--own", sRehearsal.hooked().toString(), "--meet", "brisk.preload.lab.Cycle$First,brisk.preload.lab.Cycle$Second"));
        assertEquals(Zygote.EXIT_STALLED, halves.join(), halves.text());
        assertFalse(halves.text().contains("run halves"), halves.text());
    }
}
