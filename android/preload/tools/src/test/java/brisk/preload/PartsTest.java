// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayInputStream;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The parts of the preloader that start no thread. */
class PartsTest {
    @TempDir
    Path mFolder;

    private static ClassList list(String text) throws IOException {
        return ClassList.read(new ByteArrayInputStream(text.getBytes(StandardCharsets.UTF_8)));
    }

    // Verifies PRELOAD-1.
    @Test
    void a_list_leaves_comments_out_and_keeps_the_first_of_duplicates() throws IOException {
        ClassList list = list("# made by a tool\n\n b.B \na.A\r\nb.B\n[B\nb.B\n");
        assertEquals(List.of("b.B", "a.A", "[B"), list.names());
        assertEquals(List.of("b.B", "b.B"), list.duplicates());
        assertEquals(List.of("a.A", "ä.Ä"), list("\r\n \t \na.A\r\n\n  ä.Ä").names());
        assertEquals(List.of(), list(" ").names());
        assertNotEquals(list("a.A\n").checksum(), list("a.B\n").checksum());
    }

    // Verifies PRELOAD-2.
    @Test
    void the_users_property_overrides_the_build_and_nonsense_is_off() {
        String[][] cases = {{"", "", "off"}, {"", "plan", "plan"}, {"ahead", "plan", "ahead"}, {"off", "ahead", "off"},
                {"Plan", "ahead", "off"}, {"", "halves", "off"}, {"fork", "", "fork"}};
        for (String[] one : cases) {
            assertEquals(one[2], PreloadMode.asked(one[0], one[1]).toString(), String.join("/", one));
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_boot_report_fits_into_a_property() {
        assertEquals("plan 812", BootReport.value(PreloadMode.PLAN, 812_999_999, null));
        assertEquals("off 0 there is one processor", BootReport.value(PreloadMode.OFF, 5, "there is one processor"));
        String said = BootReport.value(PreloadMode.OFF, 1_650_000_000L, "caf\u00e9\n" + "x".repeat(200));
        assertTrue(said.startsWith("off 1650 caf??xxx"), said);
        assertEquals(91, said.getBytes(StandardCharsets.UTF_8).length);
    }

    @Test
    void a_stall_is_reported_after_each_limit() {
        StallDetector detector = new StallDetector(100, 0);
        long[][] steps = {{0, 99, 0}, {0, 100, 1}, {0, 199, 0}, {0, 200, 1}, {1, 510, 0}, {1, 609, 0}, {1, 610, 1}, {2, 611, 0}};
        for (long[] step : steps) {
            assertEquals(step[2] == 1, detector.stalled((int) step[0], step[1]), "at " + step[1]);
        }
    }

    // Verifies PRELOAD-1.
    @Test
    void a_preload_that_did_not_end_makes_the_next_one_sequential() throws IOException {
        File file = mFolder.resolve("marker").toFile();
        BootMarker first = new BootMarker(file, "plan-2");
        assertNull(first.objection());
        first.begin();
        // It hangs; the device starts again.
        BootMarker second = new BootMarker(file, "plan-2");
        assertTrue(second.objection().contains("did not end"));
        // One more try, since a power cut has the same effect.
        BootMarker third = new BootMarker(file, "plan-2");
        assertNull(third.objection());
        third.begin();
        BootMarker fourth = new BootMarker(file, "plan-2");
        assertTrue(fourth.objection().contains("failed 2 times"));
        assertTrue(new BootMarker(file, "plan-2").objection().contains("stays off"));
        // Another configuration gets another try, and a complete preload resets the count.
        BootMarker other = new BootMarker(file, "ahead-2");
        assertNull(other.objection());
        other.begin();
        other.end();
        assertFalse(file.exists());
    }

    @Test
    void a_preload_that_ends_resets_the_failure_count() throws IOException {
        File file = mFolder.resolve("marker").toFile();
        new BootMarker(file, "plan-2").begin();
        assertNotNull(new BootMarker(file, "plan-2").objection());
        BootMarker again = new BootMarker(file, "plan-2");
        assertNull(again.objection());
        again.begin();
        again.end();
        new BootMarker(file, "plan-2").begin();
        assertTrue(new BootMarker(file, "plan-2").objection().contains("did not end"));
    }

    @Test
    void a_damaged_marker_objects_to_nothing() throws IOException {
        Path file = mFolder.resolve("marker");
        for (String text : List.of("", "\n", "plan-2 running", "plan-2 running x y", "\u0000\u0001")) {
            Files.writeString(file, text);
            assertNull(new BootMarker(file.toFile(), "plan-2").objection(), text);
        }
    }

    @Test
    void a_jar_is_identified_by_its_directory() throws IOException {
        Fixture fixture = new Fixture();
        fixture.add("A");
        Path jar = fixture.jar(mFolder.resolve("a.jar"));
        JarFingerprint before = JarFingerprint.of(jar.toFile());
        assertEquals(before, JarFingerprint.of(jar.toFile()));
        fixture.add("B");
        assertNotEquals(before, JarFingerprint.of(fixture.jar(jar).toFile()));
        Files.write(jar, new byte[10]);
        assertTrue(assertThrows(IOException.class, () -> JarFingerprint.of(jar.toFile())).getMessage().contains("not a jar"));
        Files.write(jar, new byte[100_000]);
        assertTrue(assertThrows(IOException.class, () -> JarFingerprint.of(jar.toFile())).getMessage().contains("not a jar"));
    }

    // Verifies PRELOAD-2.
    @Test
    void a_damaged_plan_is_refused_with_its_line() throws IOException {
        String good = "brisk-preload-plan 2\njar 10 ab a.jar\nlist 1f\ntask free - a.A\ntask exclusive 0 a.B a.C\nend 2\n";
        assertEquals(2, read(good).tasks().size());
        assertEquals(List.of("a.B", "a.C"), List.of(read(good).tasks().get(1).classes()));
        assertEquals(List.of("l.One", "a.C", "l.Zero"), List.of(read(good.replace("a.B a.C", "1 a.C 0")).tasks().get(1).classes()));
        assertEquals(2, read(good.substring(0, good.length() - 1)).tasks().size(), "the last line needs no end");
        Map<String, String> wrong = new LinkedHashMap<>(Map.of(
                "", "line 1: not a plan",
                good.replace("plan 2", "plan 1"), "line 1: not a plan",
                good.replace("end 2\n", ""), "line 6: the plan is cut short",
                good.replace("end 2", "end 3"), "line 6: 3 tasks are announced, 2 were read",
                good.replace("exclusive 0", "exclusive 1"), "line 5: task 1 does not come before this line",
                good.replace("exclusive 0", "exclusive x"), "line 5: not a number: x",
                good.replace("exclusive", "alone"), "line 5: a task is exclusive or free",
                good.replace("a.B a.C", "a.B  a.C"), "line 5: a class without a name",
                good.replace("list 1f\n", ""), "line 3: the plan does not say",
                good + "more\n", "line 7: something follows the end"));
        wrong.putAll(Map.of(
                good.replace("a.B a.C", "2"), "line 5: the list has no class 2",
                good.replace("a.B a.C", "99999999999"), "line 5: not a number: 99999999999",
                good.replace("exclusive 0", "exclusive 0,0"), "line 5: dependencies are not in order",
                good.replace("exclusive 0", "exclusive ,"), "line 5: not a number: ",
                good.replace(" a.B a.C", ""), "line 5: not understood: task exclusive 0",
                good.replace("task free", "\ntask free"), "line 4: not understood: ",
                good.replace("end 2", "end 2 2"), "line 6: not understood: end 2 2",
                good.replace("end 2", "end"), "line 6: not understood: end",
                good.replace("task free - a.A", "resources free - a.A"), "line 4: not understood: resources"));
        wrong.forEach((text, why) -> {
            String said = assertThrows(PlanException.class, () -> read(text), text).getMessage();
            assertTrue(said.startsWith(why), said);
        });
    }

    private PreloadPlan read(String text) throws IOException {
        return PreloadPlan.read(Files.writeString(mFolder.resolve("plan"), text).toFile(), list("l.Zero\nl.One\n"));
    }

    @Test
    void no_cut_or_flipped_byte_of_a_plan_gives_more_than_an_error() throws IOException {
        byte[] good = ("brisk-preload-plan 2\njar 10 ab a.jar\nlist 1f\ntask free - a.A\ntask exclusive 0 a.B a.C\n"
                + "resources free 0,1\nend 3\n").getBytes(StandardCharsets.UTF_8);
        int refused = 0;
        for (int at = 0; at < good.length; at++) {
            for (int bit = 0; bit < 8; bit++) {
                byte[] bad = good.clone();
                bad[at] ^= (byte) (1 << bit);
                Files.write(mFolder.resolve("plan"), bad);
                try {
                    assertEquals(3, PreloadPlan.read(mFolder.resolve("plan").toFile(), list("")).tasks().size());
                } catch (IOException e) {
                    refused++;
                }
            }
        }
        assertTrue(refused > good.length, refused + " refused");
    }
}
