// SPDX-License-Identifier: Apache-2.0
package brisk.preload.lab;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.InputStream;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

import brisk.preload.ParallelPreloader;
import org.junit.jupiter.api.Test;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.Handle;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** Android 4.1.2 has everything that the preloader calls. */
class AndroidCompatibilityTest {
    private final Map<String, Set<String>> mMembers = new HashMap<>();
    private final Map<String, List<String>> mAbove = new HashMap<>();
    private final Set<String> mMissing = new TreeSet<>();
    private final Set<String> mCalls = new HashSet<>();

    // Verifies PRELOAD-2.
    @Test
    void the_preloader_calls_nothing_that_android_4_1_lacks() throws IOException, URISyntaxException {
        Path framework = Framework.JELLY_BEAN.jar(Path.of(System.getProperty("brisk.frameworks")));
        try (ZipFile jar = new ZipFile(framework.toFile())) {
            for (ZipEntry entry : (Iterable<ZipEntry>) jar.stream().map(ZipEntry.class::cast)::iterator) {
                if (entry.getName().startsWith("java/") && entry.getName().endsWith(".class")) {
                    try (InputStream in = jar.getInputStream(entry)) {
                        declare(new ClassReader(in.readAllBytes()));
                    }
                }
            }
        }
        List<byte[]> own = own();
        assertTrue(own.size() > 15, own.size() + " class files of the preloader");
        own.forEach(bytes -> declare(new ClassReader(bytes)));
        own.forEach(bytes -> use(new ClassReader(bytes)));
        assertTrue(mCalls.size() > 100, mCalls.size() + " calls");
        assertEquals(Set.of(), mMissing);
    }

    private static List<byte[]> own() throws IOException, URISyntaxException {
        Path place = Path.of(ParallelPreloader.class.getProtectionDomain().getCodeSource().getLocation().toURI());
        List<byte[]> files = new ArrayList<>();
        if (Files.isDirectory(place)) {
            try (Stream<Path> paths = Files.walk(place)) {
                for (Path path : (Iterable<Path>) paths.filter(path -> path.toString().endsWith(".class"))::iterator) {
                    files.add(Files.readAllBytes(path));
                }
            }
            return files;
        }
        try (ZipFile jar = new ZipFile(place.toFile())) {
            for (ZipEntry entry : (Iterable<ZipEntry>) jar.stream().map(ZipEntry.class::cast)::iterator) {
                if (entry.getName().endsWith(".class")) {
                    files.add(jar.getInputStream(entry).readAllBytes());
                }
            }
        }
        return files;
    }

    private void declare(ClassReader reader) {
        Set<String> members = new HashSet<>();
        List<String> above = new ArrayList<>(List.of(reader.getInterfaces()));
        if (reader.getSuperName() != null) {
            above.add(reader.getSuperName());
        }
        mAbove.put(reader.getClassName(), above);
        mMembers.put(reader.getClassName(), members);
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public FieldVisitor visitField(int access, String name, String type, String signature, Object value) {
                members.add(name);
                return null;
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                members.add(name + type);
                return null;
            }
        }, ClassReader.SKIP_CODE);
    }

    private boolean has(String owner, String member) {
        return mMembers.containsKey(owner)
                && (mMembers.get(owner).contains(member) || mAbove.get(owner).stream().anyMatch(above -> has(above, member)));
    }

    private void expect(String owner, String member) {
        mCalls.add(owner + "." + member);
        if (!owner.startsWith("[") && !has(owner, member)) {
            mMissing.add(owner + "." + member);
        }
    }

    private void use(ClassReader reader) {
        assertTrue((reader.readShort(6) & 0xffff) <= Opcodes.V1_8, reader.getClassName());
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                return new MethodVisitor(Opcodes.ASM9) {
                    @Override
                    public void visitMethodInsn(int opcode, String owner, String called, String descriptor, boolean isInterface) {
                        expect(owner, called + descriptor);
                    }

                    @Override
                    public void visitFieldInsn(int opcode, String owner, String field, String descriptor) {
                        expect(owner, field);
                    }

                    @Override
                    public void visitInvokeDynamicInsn(String called, String descriptor, Handle bootstrap, Object... arguments) {
                        mMissing.add("a lambda in " + reader.getClassName() + "." + name);
                    }
                };
            }
        }, 0);
    }
}
