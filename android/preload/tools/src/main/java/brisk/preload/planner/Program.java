// SPDX-License-Identifier: Apache-2.0
package brisk.preload.planner;

import java.io.Closeable;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.zip.ZipEntry;
import java.util.zip.ZipFile;

import brisk.preload.planner.ClassInfo.MethodInfo;
import org.objectweb.asm.ClassReader;
import org.objectweb.asm.ClassVisitor;
import org.objectweb.asm.FieldVisitor;
import org.objectweb.asm.MethodVisitor;
import org.objectweb.asm.Opcodes;

/** The classes of some jars: their hierarchy at once, their code on demand. */
final class Program implements Closeable {
    private static final int HIERARCHY = ClassReader.SKIP_CODE | ClassReader.SKIP_DEBUG | ClassReader.SKIP_FRAMES;

    private record Place(ZipFile jar, ZipEntry entry) {}

    private final List<ZipFile> mJars = new ArrayList<>();
    private final Map<String, ClassInfo> mClasses = new LinkedHashMap<>();
    private final Map<String, List<ClassInfo>> mSubtypes = new HashMap<>();
    private final Map<String, Place> mPlaces = new HashMap<>();
    private final Set<String> mRead = new HashSet<>();

    /**
     * Reads the hierarchy of the classes in {@code jars}; of duplicate classes the first is used, as on a class path.
     *
     * @throws IOException if a jar cannot be read or holds an invalid class file
     */
    static Program open(List<Path> jars) throws IOException {
        Program program = new Program();
        try {
            for (Path jar : jars) {
                program.add(jar);
            }
        } catch (IOException | RuntimeException e) {
            program.close();
            throw e;
        }
        for (ClassInfo info : program.mClasses.values()) {
            for (String supertype : program.supertypes(info)) {
                program.mSubtypes.computeIfAbsent(supertype, name -> new ArrayList<>()).add(info);
            }
        }
        return program;
    }

    private void add(Path path) throws IOException {
        ZipFile jar;
        try {
            jar = new ZipFile(path.toFile());
        } catch (IOException e) {
            throw new IOException("cannot read " + path + ": " + Reason.of(e), e);
        }
        mJars.add(jar);
        for (ZipEntry entry : (Iterable<ZipEntry>) jar.stream().map(ZipEntry.class::cast)::iterator) {
            String name = entry.getName();
            if (!name.endsWith(".class") || name.startsWith("META-INF/")) {
                continue;
            }
            try (InputStream in = jar.getInputStream(entry)) {
                ClassInfo info = hierarchy(new ClassReader(in.readAllBytes()));
                if (mClasses.putIfAbsent(info.name, info) == null) {
                    mPlaces.put(info.name, new Place(jar, entry));
                }
            } catch (RuntimeException e) {
                throw new IOException(path + ": " + name + " is not a readable class: " + e, e);
            }
        }
    }

    private static ClassInfo hierarchy(ClassReader reader) {
        ClassInfo info = new ClassInfo(reader.getClassName(), reader.getSuperName(), List.of(reader.getInterfaces()),
                reader.getAccess());
        reader.accept(new ClassVisitor(Opcodes.ASM9) {
            @Override
            public FieldVisitor visitField(int access, String name, String type, String signature, Object value) {
                if ((access & Opcodes.ACC_STATIC) != 0) {
                    info.staticFields.add(name);
                }
                return null;
            }

            @Override
            public MethodVisitor visitMethod(int access, String name, String type, String signature, String[] thrown) {
                info.methods.put(name + type, new MethodInfo(info, name + type, access));
                return null;
            }
        }, HIERARCHY);
        return info;
    }

    /** The class, or null if the jars lack it. */
    ClassInfo find(String name) {
        return mClasses.get(name);
    }

    /** True if the jars have the class {@code name}, as for {@code Class.forName}; of an array, its element's class. */
    boolean has(String name) {
        String element = name.replaceFirst("^\\[+", "");
        if (element.length() == name.length()) {
            return find(name.replace('.', '/')) != null;
        }
        if (element.length() == 1) {
            return "BCDFIJSZ".contains(element);
        }
        return element.startsWith("L") && element.endsWith(";")
                && find(element.substring(1, element.length() - 1).replace('.', '/')) != null;
    }

    Collection<ClassInfo> classes() {
        return mClasses.values();
    }

    /** The uses in the code of {@code method}. */
    List<ClassInfo.Use> uses(MethodInfo method) {
        ClassInfo owner = method.owner;
        if (mRead.add(owner.name)) {
            Place place = mPlaces.get(owner.name);
            try (InputStream in = place.jar.getInputStream(place.entry)) {
                CodeReader.read(new ClassReader(in.readAllBytes()), owner);
            } catch (IOException e) {
                throw new UncheckedIOException("cannot read " + place.entry.getName() + " of " + place.jar.getName(), e);
            }
        }
        return method.uses;
    }

    /** The direct superclass and interfaces. */
    List<String> supertypes(ClassInfo info) {
        List<String> above = new ArrayList<>(info.interfaces);
        if (info.superName != null) {
            above.add(info.superName);
        }
        return above;
    }

    /** The classes at or below {@code name}, which the jars themselves may lack. */
    Set<ClassInfo> allSubtypes(String name) {
        Set<ClassInfo> seen = new HashSet<>();
        Deque<ClassInfo> ways = new ArrayDeque<>(mSubtypes.getOrDefault(name, List.of()));
        if (find(name) != null) {
            ways.add(find(name));
        }
        while (!ways.isEmpty()) {
            ClassInfo here = ways.pop();
            if (seen.add(here)) {
                ways.addAll(mSubtypes.getOrDefault(here.name, List.of()));
            }
        }
        return seen;
    }

    /** Every type above {@code info}, itself first; this includes names that the jars lack. */
    Set<String> allSupertypes(ClassInfo info) {
        Set<String> seen = new HashSet<>();
        Deque<String> ways = new ArrayDeque<>(List.of(info.name));
        while (!ways.isEmpty()) {
            String name = ways.pop();
            ClassInfo here = seen.add(name) ? find(name) : null;
            if (here != null) {
                ways.addAll(supertypes(here));
            }
        }
        return seen;
    }

    /** The method that runs if {@code signature} is called on an instance of {@code info}; null if the jars lack it. */
    MethodInfo resolve(ClassInfo info, String signature) {
        for (ClassInfo here = info; here != null; here = here.superName == null ? null : find(here.superName)) {
            MethodInfo method = here.methods.get(signature);
            if (method != null) {
                return method;
            }
        }
        for (String name : allSupertypes(info)) {
            ClassInfo above = find(name);
            MethodInfo method = above != null && above.isInterface() ? above.methods.get(signature) : null;
            if (method != null && (method.access & Opcodes.ACC_ABSTRACT) == 0) {
                return method;
            }
        }
        return null;
    }

    /** The class or interface that declares the static field {@code field}, resolved from code in {@code owner}. */
    ClassInfo declaring(String owner, String field) {
        ClassInfo info = find(owner);
        if (info == null || info.staticFields.contains(field)) {
            return info;
        }
        for (String above : supertypes(info)) {
            ClassInfo found = declaring(above, field);
            if (found != null && found.staticFields.contains(field)) {
                return found;
            }
        }
        return info;
    }

    @Override
    public void close() throws IOException {
        for (ZipFile jar : mJars) {
            jar.close();
        }
    }
}
