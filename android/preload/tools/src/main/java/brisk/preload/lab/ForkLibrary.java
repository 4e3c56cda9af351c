// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.lang.ProcessBuilder.Redirect;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;

/** The native part of {@link ForkedChild}, compiled where it is to run: Java has no fork(2). */
final class ForkLibrary {
    private static final String SOURCE = "fork.c";

    private ForkLibrary() {}

    /** Compiles it for this Java machine into {@code library}, by the C compiler that also builds the lab's kernel modules. */
    static Path build(Path library) throws IOException {
        Path include = Path.of(System.getProperty("java.home"), "include");
        Files.createDirectories(library.toAbsolutePath().getParent());
        ProcessBuilder compiler = new ProcessBuilder(List.of("cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror",
                "-I" + include, "-I" + include.resolve("linux"), "-o", library.toString(), "-x", "c", "-"));
        Process compiling;
        try {
            compiling = compiler.redirectOutput(Redirect.INHERIT).redirectError(Redirect.INHERIT).start();
        } catch (IOException e) {
            throw new IOException("there is no C compiler (Debian: gcc, libc6-dev)", e);
        }
        try (InputStream source = ForkLibrary.class.getResourceAsStream(SOURCE);
                OutputStream in = compiling.getOutputStream()) {
            source.transferTo(in);
        }
        try {
            if (compiling.waitFor() != 0) {
                throw new IOException("cannot compile " + SOURCE + " with the headers of " + include
                        + " (Debian: default-jdk-headless)");
            }
        } catch (InterruptedException e) {
            throw new IOException(e);
        }
        return library;
    }
}
