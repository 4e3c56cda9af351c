// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

import brisk.preload.ClassList;
import brisk.preload.Fixture;
import brisk.preload.planner.PlanWriter;
import brisk.preload.planner.Planner;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A preload that hangs does so in its own process, is reported, and makes the next start sequential. */
class FaultTest {
    @TempDir
    Path mFolder;

    private Path mJar;
    private Path mList;
    private Path mPlan;
    private Path mMarker;

    @BeforeEach
    void paths() {
        mJar = mFolder.resolve("made.jar");
        mList = mFolder.resolve("list");
        mPlan = mFolder.resolve("plan");
        mMarker = mFolder.resolve("marker");
    }

    private void make(Fixture fixture) throws IOException {
        fixture.jar(mJar);
        Fixture.list(mList, fixture.names());
        PlanWriter.write(Planner.plan(new Planner.Input(List.of(mJar), ClassList.read(mList.toFile()))), mPlan);
    }

    private Child zygote(String mode, String... more) throws IOException {
        List<String> arguments = new ArrayList<>(List.of("--mode", mode, "--list", mList.toString(), "--plan", mPlan.toString(),
                "--jars", mJar.toString(), "--own", mJar.toString(), "--marker", mMarker.toString()));
        arguments.addAll(List.of(more));
        return Child.start(null, List.of(), arguments);
    }

    /** The worst plan misses an edge: two threads in one cycle. */
    // Verifies PRELOAD-1.
    @Test
    void a_deadlock_is_reported_and_the_next_start_is_sequential() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A").readsField("B");
        fixture.add("B").readsField("A");
        make(fixture);
        List<String> lines = new ArrayList<>(Files.readAllLines(mPlan));
        lines.removeIf(line -> line.startsWith("task ") || line.startsWith("end "));
        lines.addAll(List.of("task free - made.A", "task free - made.B", "end 2"));
        Files.write(mPlan, lines);
        Child hangs = zygote("plan", "--stall-ms", "500", "--meet", "made.A,made.B");
        assertEquals(Zygote.EXIT_STALLED, hangs.join(), hangs.text());
        assertTrue(hangs.text().contains("in made.A") && hangs.text().contains("in made.B"), hangs.text());
        assertTrue(Files.exists(mMarker));
        Child next = zygote("plan");
        assertEquals(0, next.join(), next.text());
        assertEquals("off", next.runs().get(0).mode());
        assertTrue(next.text().contains("did not end"), next.text());
    }

    // Verifies PRELOAD-1.
    @Test
    void an_initialiser_without_end_is_reported_by_name() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("Good");
        fixture.add("Endless").endless();
        make(fixture);
        for (String mode : List.of("ahead", "plan")) {
            Files.deleteIfExists(mMarker);
            Child hangs = zygote(mode, "--stall-ms", "500", "--meet", "made.Endless");
            assertEquals(Zygote.EXIT_STALLED, hangs.join(), hangs.text());
            assertTrue(hangs.text().contains("made.Endless"), hangs.text());
            assertTrue(Files.exists(mMarker));
        }
    }

    @Test
    void a_preload_that_ends_leaves_no_marker() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A").readsField("B");
        fixture.add("B").readsField("A");
        make(fixture);
        for (String mode : List.of("off", "ahead", "plan")) {
            Child child = zygote(mode);
            assertEquals(0, child.join(), child.text());
            assertEquals(mode, child.runs().get(0).mode());
            assertFalse(Files.exists(mMarker));
        }
    }
}
