// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

import javax.tools.ToolProvider;

import brisk.preload.ClassList;
import brisk.preload.planner.Planner;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Tests that take minutes: {@code ./dev test --deep}. */
@Tag("deep")
class DeepTest {
    private static final Path FRAMEWORKS = Path.of(System.getProperty("brisk.frameworks"));
    private static final Path SCRATCH = Path.of(System.getProperty("brisk.scratch"));
    private static final int RUNS = 1000;
    private static final int RUNS_A_MACHINE = 50;
    private static final double PLANNING_LIMIT_S = 60;

    // Verifies PRELOAD-1.
    @Test
    void a_thousand_adversarial_runs_on_android_4_1() throws IOException {
        thousand(Framework.JELLY_BEAN);
    }

    // Verifies PRELOAD-1.
    @Test
    void a_thousand_adversarial_runs_on_android_14() throws IOException {
        thousand(Framework.UPSIDE_DOWN_CAKE);
    }

    private static void thousand(Framework framework) throws IOException {
        Rehearsal rehearsal = new Rehearsal(framework, FRAMEWORKS, SCRATCH).plan(1);
        List<String> state = Files.readAllLines(rehearsal.sequentialState());
        long initialised = state.stream().filter(line -> line.startsWith("initialised ")).count();
        assertTrue(initialised >= 0.95 * 2300, initialised + " of 2300 initialise");
        for (int seed = 1; seed <= RUNS / RUNS_A_MACHINE; seed++) {
            RealFrameworkTest.adversarial(rehearsal, 2, seed, RUNS_A_MACHINE);
            RealFrameworkTest.adversarial(rehearsal, 4, RUNS + seed, RUNS_A_MACHINE);
        }
    }

    @Test
    void the_compiled_table_and_xml_of_android_14_are_preloaded() throws IOException {
        FrameworkResources.use(Framework.UPSIDE_DOWN_CAKE.jar(FRAMEWORKS));
        FrameworkResources.preload();
        FrameworkResources.Preloaded preloaded = FrameworkResources.preloaded();
        assertTrue(preloaded.strings() > 10_000 && preloaded.chunks() > 1000, preloaded.toString());
    }

    // Verifies PRELOAD-2.
    @Test
    void the_zygotes_side_compiles_against_android_14() throws IOException {
        Path source = Path.of("../../integration/zygote/ZygotePreload.java");
        String classPath = Framework.UPSIDE_DOWN_CAKE.jar(FRAMEWORKS) + ":" + System.getProperty("java.class.path");
        Files.createDirectories(SCRATCH.resolve("zygote"));
        ByteArrayOutputStream said = new ByteArrayOutputStream();
        int code = ToolProvider.getSystemJavaCompiler().run(null, said, said, "-proc:none", "-cp", classPath, "-d",
                SCRATCH.resolve("zygote").toString(), source.toString());
        assertEquals(0, code, said.toString(StandardCharsets.UTF_8));
    }

    // Verifies PRELOAD-2.
    @Test
    void the_plan_for_android_14_takes_less_than_a_minute() throws IOException {
        Path jar = Framework.UPSIDE_DOWN_CAKE.jar(FRAMEWORKS);
        ClassList list = ClassList.read(Framework.UPSIDE_DOWN_CAKE.list(FRAMEWORKS, SCRATCH).toFile());
        long startedNanos = System.nanoTime();
        Planner.Result result = Planner.plan(new Planner.Input(List.of(jar), list));
        double seconds = (System.nanoTime() - startedNanos) / 1e9;
        assertTrue(result.statistics().methods() > 100_000, "virtual calls are included: " + result.statistics());
        assertTrue(seconds < PLANNING_LIMIT_S, seconds + " s");
    }
}
