// SPDX-License-Identifier: Apache-2.0
package brisk.preload;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

import javax.tools.ToolProvider;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** The zygote's side, compiled against stubs of Android; its class list does not exist here. */
class ZygoteSideTest {
    private static final Map<String, String> ANDROID = Map.of(
            "android/os/SystemProperties", "public class SystemProperties {"
                    + " static java.util.Map<String, String> properties() {"
                    + " return (java.util.Map<String, String>) System.getProperties().get(\"brisk.test\"); }"
                    + " public static String get(String name) { return properties().getOrDefault(name, \"\"); }"
                    + " public static void set(String name, String value) {"
                    + " if (properties().containsKey(\"refused\")) throw new RuntimeException(name);"
                    + " properties().put(name, value); } }",
            "android/os/Process", "public class Process { public static boolean is64Bit() { return true; } }",
            "android/system/ErrnoException", "public class ErrnoException extends Exception {}",
            "android/system/Os", "public class Os {"
                    + " public static void setregid(int real, int effective) throws ErrnoException {}"
                    + " public static void setreuid(int real, int effective) throws ErrnoException {} }",
            "android/util/Log", "public class Log {"
                    + " public static int e(String tag, String text, Throwable e) { return 0; }"
                    + " public static int i(String tag, String text) { return 0; }"
                    + " public static int wtf(String tag, String text) { return 0; } }",
            "dalvik/system/ZygoteHooks", "public class ZygoteHooks {"
                    + " public static void startZygoteNoThreadCreation() {}"
                    + " public static void stopZygoteNoThreadCreation() {} }");

    @TempDir
    Path mFolder;

    @BeforeEach
    void compile() throws IOException {
        List<String> words = new ArrayList<>(List.of("-proc:none", "-nowarn", "-cp", System.getProperty("java.class.path"), "-d",
                mFolder.toString(), "../../integration/zygote/ZygotePreload.java"));
        for (Map.Entry<String, String> stub : ANDROID.entrySet()) {
            Path file = mFolder.resolve(stub.getKey() + ".java");
            Files.createDirectories(file.getParent());
            String owner = stub.getKey().substring(0, stub.getKey().lastIndexOf('/')).replace('/', '.');
            Files.writeString(file, "package " + owner + ";\n" + stub.getValue());
            words.add(file.toString());
        }
        java.io.ByteArrayOutputStream said = new java.io.ByteArrayOutputStream();
        int code = ToolProvider.getSystemJavaCompiler().run(null, said, said, words.toArray(new String[0]));
        assertEquals(0, code, said.toString(StandardCharsets.UTF_8));
    }

    /** Boots a zygote with {@code properties}, which it may change; returns whether classes were preloaded. */
    private boolean boot(Map<String, String> properties) throws Exception {
        System.getProperties().put("brisk.test", properties);
        try (URLClassLoader loader = new URLClassLoader(new URL[] {mFolder.toUri().toURL()}, getClass().getClassLoader())) {
            Class<?> side = loader.loadClass("com.android.internal.os.ZygotePreload");
            Method classes = side.getDeclaredMethod("classes", boolean.class, Runnable.class);
            Method report = side.getDeclaredMethod("report");
            classes.setAccessible(true);
            report.setAccessible(true);
            boolean done = (boolean) classes.invoke(null, true, (Runnable) () -> { });
            report.invoke(null);
            return done;
        } finally {
            System.getProperties().remove("brisk.test");
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_zygote_reports_the_mode_that_ran_not_the_one_requested() throws Exception {
        String[][] cases = {{"", "", "off 0"}, {"off", "ahead", "off 0"}, {"fork", "", "off 0 there is nothing to fork with"},
                {"ahead", "", "off 0 cannot read /system/etc/preloaded-classes"},
                {"", "plan", "off 0 cannot read /system/etc/preloaded-classes"}};
        for (String[] one : cases) {
            Map<String, String> properties = new ConcurrentHashMap<>(Map.of("persist.brisk.preload", one[0], "ro.zygote.preload", one[1]));
            assertFalse(boot(properties), "the platform preloads itself");
            String said = properties.get("brisk.preloaded.64").replaceFirst("^off \\d+", "off 0");
            assertEquals(one[2], said, String.join("/", one));
        }
    }

    // Verifies PRELOAD-2.
    @Test
    void a_zygote_that_may_not_set_the_property_continues() throws Exception {
        Map<String, String> properties = new ConcurrentHashMap<>(Map.of("refused", ""));
        assertFalse(boot(properties));
        assertTrue(properties.keySet().stream().noneMatch(name -> name.startsWith("brisk.preloaded")), properties.toString());
    }
}
